"""DICOM: grey values through pydicom's own modality and VOI transforms, one picture for each frame."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom.dataset import Dataset
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi_lut
from pydicom.pixels.utils import iter_pixels

from yolo_ckpt.data.convert import limits
from yolo_ckpt.data.convert.dicomheader import (
    burned_in,
    check_decoder,
    decoder_hint,
    frame_count,
    grey_header,
    group_of,
    has_window,
    kinds_of_tags,
    opened,
)  # fmt: skip
from yolo_ckpt.data.convert.picture import Header, Picture, Pixels
from yolo_ckpt.data.convert.problems import BrokenFileError, said
from yolo_ckpt.data.convert.window import Choice, Window, measured
from yolo_ckpt.errors import YoloCkptError

_MEASURED_FRAMES = 8


def header(path: Path, group: str) -> Header:
    """Size, frames and, as a digest, what the file belongs to (`group`: patient, study, series or image).

    Raises:
        BrokenFileError: It cannot be read, or its codec is missing.
        LeftOutError: It holds no picture.
    """
    data = opened(path, only_header=True)
    check_decoder(data)
    with _understood("its header"):
        width, height = int(data.Columns), int(data.Rows)
        limits.check_readable(width, height)
        values = width * height * int(data.get("SamplesPerPixel", 1))
        return Header(
            width=width,
            height=height,
            frames=frame_count(data),
            bytes_needed=values * 24 + path.stat().st_size,
            group=group_of(data, group),
        )


def read(path: Path, choice: Choice) -> Iterator[Picture]:
    """The frames of a file as 8-bit pictures.

    Raises:
        BrokenFileError: It cannot be read.
        LeftOutError: It holds no picture.
    """
    data = opened(path)
    check_decoder(data)
    with _understood("its header"):
        window = _measured_once(data, choice)
        once = burned_in(data), kinds_of_tags(data)
    for index, frame in enumerate(_frames(data)):
        notes, dropped = (Counter[str](), Counter[str]()) if index else once
        with _understood("its header"):
            grey = frame.ndim == 2
            pixels, text = _grey(frame, data, index, choice, window, notes) if grey else _colour(frame, data)
        yield Picture(pixels=pixels, window=Window(text=text), notes=notes, dropped=dropped)


def _grey(
    frame: Pixels, data: Dataset, index: int, choice: Choice, window: Window | None, notes: Counter[str]
) -> tuple[Pixels, str]:
    """(H, W, 1) 8-bit levels of one grey frame, and what made them."""
    head = grey_header(data, index)
    dark = head.PhotometricInterpretation == "MONOCHROME1"
    if head.PhotometricInterpretation == "PALETTE COLOR":
        return _palette(frame, data)
    if window is not None:
        levels = window.apply(apply_modality_lut(frame, head)[..., None])
        return 255 - levels if dark else levels, window.text
    if choice.kind == "given":
        head.WindowCenter, head.WindowWidth = choice.numbers
        for keyword in ("VOILUTSequence", "VOILUTFunction"):
            if keyword in head:
                del head[keyword]
    shown = apply_voi_lut(apply_modality_lut(frame, head), head)
    low, high = _range_shown(head)
    if low == high:
        raise BrokenFileError("its header's window maps all values to one")
    levels = np.rint((shown.astype(np.float64) - low) * (255.0 / (high - low))).clip(0, 255).astype(np.uint8)[..., None]
    notes["only the first of several header windows was used"] += int(_windows(head) > 1 and choice.kind != "given")
    return 255 - levels if dark else levels, _text(head, choice)


def _range_shown(head: Dataset) -> tuple[float, float]:
    """What `apply_voi_lut` calls black and white: the ends of its table, or what it makes of extreme values."""
    if head.get("VOILUTSequence"):
        return 0.0, 2.0 ** int(head.VOILUTSequence[0].LUTDescriptor[2]) - 1
    with np.errstate(over="ignore"):
        low, high = apply_voi_lut(np.array([-1e300, 1e300]), head)
    return float(low), float(high)


def _windows(head: Dataset) -> int:
    if head.get("VOILUTSequence"):
        return len(head.VOILUTSequence)
    return int(head["WindowCenter"].VM) if "WindowCenter" in head else 0


def _text(head: Dataset, choice: Choice) -> str:
    if head.get("VOILUTSequence"):
        return "header: VOI table"
    center, width = (np.atleast_1d(np.asarray(value, float))[0] for value in (head.WindowCenter, head.WindowWidth))
    return f"{'given' if choice.kind == 'given' else 'header'}: center {center:g}, width {width:g}"


def _measured_once(data: Dataset, choice: Choice) -> Window | None:
    """The window of all grey frames together; None where the header or the user gives it, or there are colours."""
    if int(data.get("SamplesPerPixel", 1)) > 1 or data.PhotometricInterpretation == "PALETTE COLOR":
        return None
    head, whole_numbers = grey_header(data, 0), "BitsStored" in data
    if choice.kind == "given" and not whole_numbers:
        center, width = choice.numbers
        low, high = center - width / 2, center + width / 2
        return Window(low=(low,), high=(high,), text=f"given: center {center:g}, width {width:g}")
    if choice.kind == "given" or (choice.kind in ("auto", "header") and whole_numbers and has_window(head)):
        return None
    if choice.kind == "header":
        raise BrokenFileError("its header gives no window; use window=percentile, full or CENTER,WIDTH")
    if choice.kind == "auto" and whole_numbers and _is_plain_byte(head, int(data.BitsAllocated)):
        bits = int(data.BitsStored)
        return Window(low=(0.0,), high=(2.0**bits - 1,), text=f"{bits}-bit as stored")
    count = frame_count(data)
    picked = sorted({int(i) for i in np.linspace(0, count - 1, min(count, _MEASURED_FRAMES))})
    stored = list(_frames(data, picked))
    values = [apply_modality_lut(f, grey_header(data, i)) for i, f in zip(picked, stored, strict=True)]
    padding = _padding(np.concatenate(stored), data)
    return measured(
        np.concatenate(values)[..., None], choice, Counter(), padding=None if padding is None else padding[..., None]
    )


def _is_plain_byte(head: Dataset, bits: int) -> bool:
    """Whether values are grey levels already: one unsigned byte, not rescaled."""
    scaled = head.get("RescaleSlope", 1) != 1 or head.get("RescaleIntercept", 0) != 0 or "ModalityLUTSequence" in head
    return bits <= 8 and head.PixelRepresentation == 0 and not scaled


def _padding(stored: Pixels, data: Dataset) -> npt.NDArray[np.bool_] | None:
    """Where stored values stand for nothing (PS3.3 C.7.5.1.1.2)."""
    if "PixelPaddingValue" not in data:
        return None
    one = int(data.PixelPaddingValue)
    other = int(data.get("PixelPaddingRangeLimit", one))
    return (stored >= min(one, other)) & (stored <= max(one, other))


def _palette(frame: Pixels, data: Dataset) -> tuple[Pixels, str]:
    colours = apply_color_lut(frame, data)
    bits = int(data.RedPaletteColorLookupTableDescriptor[2])
    return _to_bytes(colours[..., :3], bits), "palette"


def _colour(frame: Pixels, data: Dataset) -> tuple[Pixels, str]:
    if frame.shape[2] != 3:
        raise BrokenFileError(f"it has {frame.shape[2]} samples in a pixel; grey and colour pictures are read")
    bits = int(data.BitsStored)
    return _to_bytes(frame, bits), f"{bits}-bit colours"


def _to_bytes(values: Pixels, bits: int) -> npt.NDArray[np.uint8]:
    if bits <= 8:
        return values.astype(np.uint8)
    return (values.astype(np.uint64) >> np.uint64(bits - 8)).astype(np.uint8)


def _frames(data: Dataset, indices: list[int] | None = None) -> Iterator[Pixels]:
    """Stored values frame by frame, (H, W) or (H, W, 3) in RGB.

    Raises:
        BrokenFileError: The pixels are cut off, damaged, or of a kind that no decoder here reads.
    """
    frames: Iterator[Any] = iter(())
    with _understood("its pixels", decoder_hint(data)):
        frames = iter(iter_pixels(data, indices=indices))
    while True:
        with _understood("its pixels", decoder_hint(data)):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


@contextmanager
def _understood(what: str, hint: str = "") -> Iterator[None]:
    """pydicom and its decoders raise nearly everything on damaged values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except YoloCkptError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].split(" - ")[0][:200] if lines else said(error)
        raise BrokenFileError(f"{what} cannot be read: {reason}{hint}") from error
