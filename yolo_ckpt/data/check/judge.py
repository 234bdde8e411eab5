"""Files that a header leaves in doubt, decoded as the host decodes them: by its label scan and by its loader.

The host's scan (`check_image`) verifies PNGs and loads JPEGs without an end marker; what raises there is dropped, and
such a JPEG that loads is written anew. Here nothing is written. The loader (`imread`) gives None for what OpenCV cannot
decode, and training stops at it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolo_ckpt.data.check.headers import Header, opened
from yolo_ckpt.data.check.scan import Looked, Step, in_threads
from yolo_ckpt.data.host import MOST_PIXELS

MOST_DECODED_PIXELS = 500_000_000  # decoded of what is in doubt, unless everything is asked for
_THREADS = 2  # each holds a decoded image or two


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the host makes of a file.

    Attributes:
        dropped: Why its scan drops the image; empty where it does not.
        rewritten: Its scan replaces the file.
        loaded: Its loader reads it.
        channels: Of what is loaded.
        dtype: Of what is loaded.
        levels: Different values in the first channel of what is loaded.
        levels_there: Different values in the file's own samples; 0 where they cannot be counted.
        uniform: All pixels of what is loaded are the same.
    """

    dropped: str = ""
    rewritten: bool = False
    loaded: bool = False
    channels: int = 0
    dtype: str = ""
    levels: int = 0
    levels_there: int = 0
    uniform: bool = False


def in_doubt(header: Header, channels: int) -> bool:
    """True where the header leaves open what the host reads, for a data set of that many channels."""
    if header.error or header.pixels > MOST_PIXELS:
        return False
    return not header.whole or header.unusual or is_deep(header) or header.pages > 1 or channels not in (1, 3)


def is_deep(header: Header) -> bool:
    """True for samples of more than 8 bits."""
    return header.bits > 8 or header.sample != "uint"


def to_decode(looked: Sequence[Looked], channels: int, *, everything: bool) -> tuple[list[Looked], int]:
    """What to decode, each file once: what is in doubt, all of it up to a limit of pixels, beyond that a sample over
    the whole set; every file with `everything`. And how many are in doubt."""
    known = {one.path: one for one in looked if not one.header.error and one.header.pixels <= MOST_PIXELS}
    doubtful = [one for one in known.values() if in_doubt(one.header, channels)]
    return (list(known.values()) if everything else _within(doubtful)), len(doubtful)


def judged(chosen: Sequence[Looked], channels: int, step: Step) -> dict[str, Verdict]:
    """Verdicts by path."""
    with _quiet():
        verdicts = in_threads(lambda one: judge(one.path, one.header, channels), chosen, step, threads=_THREADS)
    return {one.path: verdict for one, verdict in zip(chosen, verdicts, strict=True)}


def _within(doubtful: list[Looked]) -> list[Looked]:
    """As many of them, evenly, as have the most pixels that are decoded."""
    total = sum(one.header.pixels for one in doubtful)
    stride = -(-total // MOST_DECODED_PIXELS) if total else 1
    return doubtful[::stride]


def judge(path: str, header: Header, channels: int) -> Verdict:
    """What the host makes of one file, for a data set of that many channels."""
    dropped = _refusal(path, header)
    if dropped:
        return Verdict(dropped=dropped)
    rewritten = header.format == "JPEG" and not header.whole
    flag = _flag(channels)
    from ultralytics.utils.patches import imread

    image = imread(path, flag)
    if image is None:
        return Verdict(rewritten=rewritten)
    there, levels = _levels(_own_samples(path)) if is_deep(header) else 0, _levels(image)
    return Verdict(
        rewritten=rewritten, loaded=True, channels=image.shape[2], dtype=str(image.dtype), levels=levels,
        levels_there=there, uniform=levels == 1 and bool((image == image[:1, :1]).all()),
    )  # fmt: skip


def _refusal(path: str, header: Header) -> str:
    """What the host's scan stumbles on (`check_image`)."""
    try:
        with Path(path).open("rb") as file:
            image = opened(file, path)
            if header.format == "JPEG" and not header.whole:
                image.load()
            else:
                image.verify()
    except Exception as error:  # as the host: whatever is raised, the image is dropped
        return str(error) or type(error).__name__
    return ""


def _flag(channels: int) -> int:
    """How the host reads a data set of that many channels (`BaseDataset.__init__`)."""
    import cv2

    return int({1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR}.get(channels, cv2.IMREAD_UNCHANGED))


def _own_samples(path: str) -> Any:
    import cv2

    return cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)


def _levels(image: Any) -> int:
    """Different values in the first channel; 0 where there is no table of them."""
    if image is None or image.dtype not in (np.uint8, np.uint16):
        return 0
    import cv2

    values = 1 << (8 * image.itemsize)
    first = np.ascontiguousarray(image if image.ndim == 2 else image[..., 0])
    return int(np.count_nonzero(cv2.calcHist([first], [0], None, [values], [0, values])))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the decoders' C libraries write on standard error about broken files away from it: it is in the
    findings."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
