"""From the record of an image, and the host's verdict where it was in doubt, to what is said about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.check.headers import Header
from yolo_ckpt.data.check.judge import Verdict, in_doubt, is_deep
from yolo_ckpt.data.host import LEAST_SIDE_PX, MOST_PIXELS, SIDES_SWAPPED

FORMATS_BESIDE = frozenset({"jpeg2000"})  # PIL's name of .jp2, which the host takes besides the endings
_ENOUGH_LEVELS = 128  # half of what 8 bits hold
_NOT_DECODED = "not decoded"


def is_dropped(header: Header, verdict: Verdict | None, formats: frozenset[str]) -> bool:
    """True where the host's scan leaves the image out."""
    return (
        bool(header.error)
        or header.format.lower() not in formats
        or header.pixels > MOST_PIXELS
        or min(header.width, header.height) < LEAST_SIDE_PX
        or (verdict is not None and bool(verdict.dropped))
    )


def image_findings(
    path: str,
    header: Header,
    verdict: Verdict | None,
    *,
    channels: int,
    formats: frozenset[str],
    deep_loses: bool = False,
) -> Iterator[Finding]:
    """Everything about one image, for a data set of that many channels and a host that takes these formats;
    `deep_loses` where the 16-bit images that were decoded lose levels."""
    if not _is_utf8(path):
        yield finding("image-name", path, "the name holds bytes that are not UTF-8")
    if is_dropped(header, None, formats):
        yield _refused(path, header, formats)
        return
    if verdict is not None:
        yield from _judged(path, header, verdict, channels)
        if not verdict.loaded:
            return
    elif in_doubt(header, channels):
        yield from _unjudged(path, header, deep_loses=deep_loses)
    yield from _bands(path, header, channels)
    yield from _notes(path, header, channels)


def _is_utf8(path: str) -> bool:
    try:
        os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _refused(path: str, header: Header, formats: frozenset[str]) -> Finding:
    """Why the host's scan drops it, as far as the header shows."""
    if header.error:
        return _unreadable(path, header)
    size = f"{header.width} x {header.height} px"
    if header.format.lower() not in formats:
        return finding("image-format", path, f"it is {header.format} inside, whatever its name says")
    if header.pixels > MOST_PIXELS:
        return finding(
            "image-too-large", path,
            f"{size}, {header.pixels / 1e6:.0f} megapixels; the host drops more than {MOST_PIXELS / 1e6:.0f}",
        )  # fmt: skip
    return finding("image-too-small", path, f"{size}; the host drops what has fewer than {LEAST_SIDE_PX} on a side")


def _unreadable(path: str, header: Header) -> Finding:
    if header.error == "no such file or directory":
        link = "the link leads nowhere" if os.path.islink(path) else "there is no such file"  # noqa: PTH114
        return finding("image-missing", path, link)
    if header.error == "zero bytes":
        return finding("image-empty", path, "it has zero bytes")
    if header.error.startswith("too many levels of symbolic links"):
        return finding("image-missing", path, "the link leads to itself")
    if not header.whole:
        return finding("image-truncated", path, f"{header.error}; the host drops it")
    return finding("image-unreadable", path, header.error + _what_tiff(path))


def _what_tiff(path: str) -> str:
    """What is inside a TIFF that PIL cannot describe."""
    if not path.lower().endswith((".tif", ".tiff")):
        return ""
    try:
        import tifffile

        with tifffile.TiffFile(path) as file:
            page = file.pages[0]
            return f" (a TIFF of shape {tuple(page.shape)}, {page.dtype})"
    except Exception:  # then it is no TIFF, and what was said stands
        return ""


def _judged(path: str, header: Header, verdict: Verdict, channels: int) -> Iterator[Finding]:
    cut = not header.whole
    if verdict.dropped:
        what = "image-truncated" if cut else "image-unreadable"
        yield finding(what, path, f"{verdict.dropped}; the host drops it")
    elif not verdict.loaded:
        what = "image-truncated" if cut else "image-undecodable"
        reason = f"OpenCV makes nothing of it ({header.kind}); training stops when it is loaded"
        yield finding(what, path, reason, kind="fails")
    else:
        if verdict.rewritten:
            yield finding("image-rewritten", path, "its last bytes are not the end marker, and it can be decoded")
        yield from _levels(path, header, verdict)
        if verdict.uniform:
            yield finding("image-uniform", path, "every pixel is the same")
        if channels not in (1, 3) and verdict.channels != channels:
            reason = f"{verdict.channels} channels, channels: {channels} in the YAML; training stops at it"
            yield finding("image-channels", path, reason)


def _levels(path: str, header: Header, verdict: Verdict) -> Iterator[Finding]:
    """Whether 8 bits are enough for what the file holds."""
    if not is_deep(header):
        return
    if verdict.dtype != "uint8":
        reason = f"loaded as {verdict.dtype}, which the host divides by 255 whatever its range"
        yield finding("image-few-levels", path, reason)
        return
    there = f" of {verdict.levels_there:,}" if verdict.levels_there else ""
    lost = verdict.levels < _ENOUGH_LEVELS and verdict.levels != verdict.levels_there
    code = "image-few-levels" if lost else "image-deep"
    yield finding(code, path, f"{header.bits} bits: {verdict.levels}{there} levels are left")


def _bands(path: str, header: Header, channels: int) -> Iterator[Finding]:
    """What is left out where the data set has one or three channels."""
    if channels not in (1, 3):
        return
    if header.pages > 1:
        yield finding("image-pages", path, f"{header.pages} pages of {header.width} x {header.height} px")
    elif header.extra > 0:
        yield finding(
            "image-bands", path, f"{header.channels} bands, {header.extra} of them neither colour nor transparency"
        )


def _unjudged(path: str, header: Header, *, deep_loses: bool) -> Iterator[Finding]:
    """In doubt, but beyond what is decoded without `full=True`."""
    if not header.whole:
        yield finding("image-truncated", path, f"it seems to be cut off; {_NOT_DECODED}")
    elif is_deep(header):
        code = "image-few-levels" if deep_loses else "image-deep"
        yield finding(code, path, f"{header.kind}, as others that were decoded; {_NOT_DECODED}")
    elif header.unusual:
        yield finding("image-undecodable", path, f"OpenCV may not read this variant; {_NOT_DECODED}", kind="note")


_MODES: Mapping[str, tuple[str, str]] = {
    "CMYK": ("image-cmyk", "CMYK"), "P": ("image-palette", "a palette"), "PA": ("image-palette", "a palette"),
    "1": ("image-bilevel", "1 bit"),
}  # fmt: skip


def _notes(path: str, header: Header, channels: int) -> Iterator[Finding]:
    if header.mode in _MODES:
        code, what = _MODES[header.mode]
        yield finding(code, path, what)
    opencv_turns = channels in (1, 3) or header.format == "TIFF"
    if header.orientation in SIDES_SWAPPED and not opencv_turns:
        reason = f"orientation {header.orientation}, which the host heeds for the labels but not for the pixels"
        yield finding("image-turned", path, reason, kind="loses", advice="turn the pixels and remove the tag")
    elif 1 < header.orientation <= 8:
        yield finding(
            "image-turned", path, f"orientation {header.orientation}, {header.width} x {header.height} px upright"
        )
    elif header.orientation not in (0, 1):
        yield finding("image-orientation", path, f"orientation {header.orientation}; there are 1 to 8")
