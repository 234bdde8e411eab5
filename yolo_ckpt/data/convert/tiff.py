"""TIFF: 16-bit and float values, many bands, pages, BigTIFF; large ones stay in a mapped file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from yolo_ckpt.data.convert import limits, plain
from yolo_ckpt.data.convert.picture import Header, Picture, Pixels, upright
from yolo_ckpt.data.convert.problems import BrokenFileError, decoding
from yolo_ckpt.data.convert.window import AS_STORED, Choice, Window, measured
from yolo_ckpt.data.host import SIDES_SWAPPED

MAPPED_FROM_BYTES = 256 << 20
_COLOURS_OF_OPENCV = frozenset({"PALETTE", "SEPARATED", "YCBCR", "CIELAB", "ICCLAB", "ITULAB", "LOGL", "LOGLUV"})
_TEXTS = {
    270: "description", 305: "software", 306: "date", 315: "author", 316: "computer", 33432: "copyright",
    34665: "EXIF", 34853: "GPS", 700: "XMP", 34675: "colour profile", 34735: "georeference",
}  # fmt: skip
_GDAL_NODATA = 42113


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How the values of a TIFF lie.

    Attributes:
        frames: Pictures.
        bands: Channels of each.
        axes: Names of the array's axes: those of frames, then height, width, then those of bands.
        colour: The first three bands are red, green and blue.
        alpha: How many of the last bands are transparency.
        photometric: Its name in tifffile.
        orientation: As in EXIF.
        nodata: A value that stands for nothing.
        texts: Kinds of what the file says besides.
    """

    frames: int
    bands: int
    alpha: int
    height: int
    width: int
    axes: str
    colour: bool
    photometric: str
    orientation: int
    nodata: float | None
    texts: Counter[str]


def header(path: Path, bands: tuple[int, ...] | None) -> Header:
    """Size and pages, from the file's header.

    Raises:
        BrokenFileError: It cannot be read.
    """
    with _opened(path) as file:
        layout = _layout(file.series[0], bands)
        limits.check_readable(layout.width, layout.height)
        values = layout.width * layout.height * layout.bands
        mapped = file.series[0].nbytes > MAPPED_FROM_BYTES
        turned = layout.orientation in SIDES_SWAPPED
        width, height = (layout.height, layout.width) if turned else (layout.width, layout.height)
        needed = path.stat().st_size if mapped else values * (8 + layout.frames * 4)
        return Header(width=width, height=height, frames=layout.frames, bytes_needed=needed)


def read(path: Path, choice: Choice, bands: tuple[int, ...] | None, scratch: Path) -> Iterator[Picture]:
    """The pictures in a TIFF, upright, with the bands that were chosen.

    Args:
        path: The file.
        choice: How values become grey levels.
        bands: Numbers from 1; None leaves colour images alone, empty keeps all.
        scratch: A file that may be written while this runs, for what does not fit into memory.

    Raises:
        BrokenFileError: It cannot be read, or the bands are not there or have to be chosen.
    """
    with _opened(path) as file:
        layout = _layout(file.series[0], bands)
        if layout.photometric in _COLOURS_OF_OPENCV and bands is None:
            pixels, notes = plain.decode_upright(path), Counter[str]()
            window = _window(pixels, replace(layout, nodata=None), choice, notes)
            yield _picture(pixels, window, layout, notes)
            return
        values = _values(path, file.series[0], layout, scratch)[..., _chosen(layout, bands)]
        notes = Counter({"further pictures of a TIFF left out": len(file.series) - 1})
        window = _window(values.reshape(-1, *values.shape[2:]), layout, choice, notes)
        for whole in values:
            notes["images with bands left out"] = int(values.shape[3] < layout.bands)
            yield _picture(upright(whole, layout.orientation), window, layout, notes)
            notes.clear()


@contextmanager
def _opened(path: Path) -> Iterator[tifffile.TiffFile]:
    with decoding("the TIFF"):
        file = tifffile.TiffFile(path)
    with file:
        with decoding("the TIFF"):
            empty = not file.series or not file.series[0].shape  # this reads what the pages say of themselves
        if empty:
            raise BrokenFileError("the TIFF holds no picture")
        yield file


def _window(pixels: Pixels, layout: _Layout, choice: Choice, notes: Counter[str]) -> Window:
    """One for all pages of a file, whose rows are `pixels` (H, W, C): they are of one recording."""
    inverted = layout.photometric == "MINISWHITE"
    if pixels.dtype.kind == "c":
        raise BrokenFileError("its values are complex; save the magnitude")
    if pixels.dtype.name in AS_STORED:
        return replace(AS_STORED[pixels.dtype.name], inverted=inverted)
    per_band = not layout.colour and layout.photometric not in _COLOURS_OF_OPENCV
    return measured(pixels, choice, notes, per_band=per_band, nodata=layout.nodata, inverted=inverted)


def _picture(pixels: Pixels, window: Window, layout: _Layout, notes: Counter[str]) -> Picture:
    return Picture(
        pixels=pixels, window=window, orientation=layout.orientation, notes=+notes, dropped=layout.texts.copy()
    )


def _layout(series: Any, bands: tuple[int, ...] | None) -> _Layout:
    """Frames are what remains beside height, width, samples and channels. Where bands are asked for and there are none,
    the pages are the bands: that is how the host keeps them.

    Raises:
        BrokenFileError: The header does not make sense.
    """
    axes, shape = series.axes, series.shape
    if "Y" not in axes or "X" not in axes:
        raise BrokenFileError(f"the TIFF has the axes {axes}, none of them a height and a width")
    band_axes = "".join(a for a in axes if a in "SC")
    others = [a for a in axes if a not in "YXSC"]
    if not band_axes and bands is not None and len(others) == 1:
        band_axes, others = others[0], []
    count = dict(zip(axes, shape, strict=True))
    order = "".join(others) + "YX" + band_axes
    with decoding("the TIFF header"):
        return _Layout(
            **_facts(series.keyframe),
            frames=int(np.prod([count[a] for a in others], dtype=int)),
            bands=int(np.prod([count[a] for a in band_axes], dtype=int)),
            height=count["Y"],
            width=count["X"],
            axes=order,
        )


def _facts(page: Any) -> dict[str, Any]:
    photometric = page.photometric.name
    return {
        "alpha": sum(int(extra) in (1, 2) for extra in page.extrasamples),
        "colour": photometric == "RGB",
        "photometric": photometric,
        "orientation": _orientation(page),
        "nodata": _nodata(page),
        "texts": Counter({name: 1 for code, name in _TEXTS.items() if code in page.tags}),
    }


def _chosen(layout: _Layout, bands: tuple[int, ...] | None) -> Any:
    """What to index the bands with."""
    if bands is None:
        if layout.bands - layout.alpha in (1, 3):
            return slice(layout.bands - layout.alpha)
        if layout.colour and layout.bands > 3:
            return slice(3)  # the host leaves the fourth out as well
        raise BrokenFileError(f"it has {layout.bands} bands; choose three with bands=4,3,2, or keep all with bands=all")
    if bands and max(bands) > layout.bands:
        raise BrokenFileError(f"it has {layout.bands} bands, bands={','.join(map(str, bands))} asks for more")
    return [band - 1 for band in bands] if bands else slice(None)


def _values(path: Path, series: Any, layout: _Layout, scratch: Path) -> Pixels:
    """(frames, H, W, bands): a view of the file where its values lie there as they are, of `scratch` where unpacking
    takes much memory."""
    large = series.nbytes > MAPPED_FROM_BYTES
    if large and series.dataoffset is not None and series.keyframe.is_memmappable:
        with decoding("the TIFF"):
            values: Pixels = tifffile.memmap(path, mode="r")
    else:
        with decoding("the TIFF"):
            try:
                values = _unpacked(series, scratch if large else None)
            except ValueError as error:
                if "imagecodecs" not in str(error):
                    raise
                values = _other_codec(path, series, error)
    order = [series.axes.index(a) for a in layout.axes]
    return values.transpose(order).reshape(layout.frames, layout.height, layout.width, layout.bands)


def _unpacked(series: Any, scratch: Path | None) -> Pixels:
    """The values in memory, by this thread alone since there is a process for each core, or by several in `scratch`."""
    values: Pixels
    if scratch is None:
        values = series.asarray(level=0, maxworkers=1)
    else:
        values = series.asarray(level=0, out=_mapped(scratch, series))
    return values


def _mapped(scratch: Path, series: Any) -> Pixels:
    """An array in a file whose room is taken first: writing to a mapped file on a full disk kills the process."""
    with scratch.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, series.nbytes)
        else:
            file.truncate(series.nbytes)
    return np.memmap(scratch, mode="r+", shape=series.shape, dtype=series.dtype)


def _other_codec(path: Path, series: Any, error: ValueError) -> Pixels:
    """OpenCV knows the usual compressions too, for a single picture."""
    page = series.keyframe
    missing = BrokenFileError(f"its compression ({page.compression.name}) needs a package: pip install imagecodecs")
    usual = series.axes in ("YX", "YXS") and series.shape[2:] in ((), (3,)) and _orientation(page) == 1
    if not usual or page.photometric.name == "MINISWHITE":
        raise missing from error
    try:
        pixels = plain.decode_upright(path)
    except BrokenFileError:
        raise missing from error
    return pixels[..., 0] if series.axes == "YX" else pixels


def _orientation(page: Any) -> int:
    tag = page.tags.get(274)
    return int(tag.value) if tag is not None and int(tag.value) in range(1, 9) else 1


def _nodata(page: Any) -> float | None:
    tag = page.tags.get(_GDAL_NODATA)
    try:
        value = None if tag is None else float(str(tag.value).strip().strip("\x00"))
    except ValueError:
        return None
    return None if value is None or np.isnan(value) else value
