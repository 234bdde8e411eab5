"""From stored values to 8-bit grey levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert.problems import BrokenFileError

Pixels = npt.NDArray[Any]
_SAMPLE_VALUES = 4_000_000  # of deeper images, which have no table of 65,536 counts
_PART_VALUES = 16_000_000  # looked at in one go


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What `window=` and `percentile=` say.

    Attributes:
        kind: `auto` is the header's window for DICOM and percentiles else; `given` takes `numbers`.
        numbers: LOW,HIGH for images, CENTER,WIDTH for DICOM.
        percentiles: The two of `percentile`.
    """

    kind: Literal["auto", "header", "percentile", "full", "given"] = "auto"
    numbers: tuple[float, float] = (0.0, 0.0)
    percentiles: tuple[float, float] = (0.5, 99.5)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Values from `low` to `high` become 0 to 255.

    Attributes:
        low: One for all channels, or one for each; empty where the values are 8-bit already.
        high: As many.
        text: For the report.
        inverted: Large values are dark.
        nodata: A value that stands for nothing, written as 0.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    text: str = "8-bit as stored"
    inverted: bool = False
    nodata: float | None = None

    def apply(self, pixels: Pixels) -> npt.NDArray[np.uint8]:
        """`pixels` (H, W, C) as 8-bit values of the same shape; what is no number becomes 0."""
        if not pixels.dtype.isnative:
            pixels = pixels.astype(pixels.dtype.newbyteorder("="))
        if not self.low:
            return _inverted(pixels.astype(np.uint8), self.inverted)
        if pixels.dtype in (np.uint16, np.int16) and len(self.low) == 1 and pixels.size > 65536:
            every = np.arange(65536, dtype=np.uint16).view(pixels.dtype)
            table: npt.NDArray[np.uint8] = self._scaled(every[:, None])[:, 0]
            return table[pixels.view(np.uint16)]
        return self._scaled(pixels)

    def _scaled(self, pixels: Pixels) -> npt.NDArray[np.uint8]:
        real: type[np.floating[Any]] = np.float32 if pixels.dtype.itemsize <= 2 else np.float64
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        span = high - low
        scaled = pixels.astype(real)
        scaled -= low.astype(real)
        scaled *= np.where(span > 0, 255.0 / np.where(span > 0, span, 1.0), 0.0).astype(real)
        np.clip(scaled, 0.0, 255.0, out=scaled)
        levels = _inverted(np.rint(np.nan_to_num(scaled, copy=False, nan=0.0)).astype(np.uint8), self.inverted)
        missing = self._missing(pixels)
        if missing is not None:
            levels[missing] = 0
        return levels

    def _missing(self, pixels: Pixels) -> npt.NDArray[np.bool_] | None:
        missing = np.isnan(pixels) if pixels.dtype.kind == "f" else None
        if self.nodata is not None:
            nothing = pixels == self.nodata
            missing = nothing if missing is None else missing | nothing
        return missing


def _inverted(levels: npt.NDArray[np.uint8], inverted: bool) -> npt.NDArray[np.uint8]:
    return 255 - levels if inverted else levels


AS_STORED = {"uint8": Window(), "bool": Window(low=(0.0,), high=(1.0,), text="1-bit as stored")}


def measured(
    pixels: Pixels, choice: Choice, notes: Counter[str], *, per_band: bool = False, nodata: float | None = None,
    inverted: bool = False, padding: npt.NDArray[np.bool_] | None = None,
) -> Window:  # fmt: skip
    """The window that `choice` means for `pixels` (H, W, C): the percentiles, or all, of the values that are numbers.

    Args:
        pixels: Stored values.
        choice: `given` is taken as LOW,HIGH; `auto` and `header` as percentiles.
        notes: Gets what was left out of the measurement.
        per_band: Each channel gets a window of its own.
        nodata: A value that stands for nothing.
        inverted: Large values are dark.
        padding: (H, W, C), true where a value stands for nothing.

    Raises:
        BrokenFileError: No value is a finite number.
    """
    _count_odd(pixels, nodata, notes)
    if choice.kind == "given":
        low, high = choice.numbers
        if low >= high:
            raise BrokenFileError(f"window={low:g},{high:g} is LOW,HIGH for this file, and LOW has to be below HIGH")
        return Window(low=(low,), high=(high,), text=f"given, {low:g} to {high:g}", inverted=inverted, nodata=nodata)
    lows, highs, names = [], [], set()
    for band in range(pixels.shape[2]) if per_band else [slice(None)]:
        hidden = None if padding is None else padding[..., band]
        low, high, name = _limits(pixels[..., band], choice, nodata, hidden)
        lows.append(low)
        highs.append(high)
        names.add(name)
    spans = ", ".join(f"{low:g} to {high:g}" for low, high in zip(lows, highs, strict=True))
    text = f"{' and '.join(sorted(names))}: {spans}"
    return Window(low=tuple(lows), high=tuple(highs), text=text, inverted=inverted, nodata=nodata)


def _limits(
    values: Pixels, choice: Choice, nodata: float | None, hidden: npt.NDArray[np.bool_] | None
) -> tuple[float, float, str]:
    if choice.kind == "full":
        return *_extent(values, nodata, hidden), "full range"
    levels, counts = _distribution(values, nodata, hidden)
    if not counts.sum():
        return *_extent(values, nodata, hidden), "full range (most values are no numbers)"
    first, last = choice.percentiles
    reached = np.cumsum(counts) / counts.sum() * 100
    low = float(levels[np.searchsorted(reached, first, side="right").clip(max=len(levels) - 1)])
    high = float(levels[np.searchsorted(reached, last, side="left").clip(max=len(levels) - 1)])
    if low < high:
        return low, high, f"percentile {first:g}-{last:g}"
    # Nearly all pixels have one value, as in fluorescence or a clean dark background: what differs must not saturate.
    return *_extent(values, nodata, hidden), "full range (the percentiles are one value)"


def _extent(values: Pixels, nodata: float | None, hidden: npt.NDArray[np.bool_] | None) -> tuple[float, float]:
    """The least and the largest of all values that are numbers."""
    least, most = np.inf, -np.inf
    for rows in _parts(values):
        part = np.asarray(values[rows])
        kept = np.isfinite(part)
        if hidden is not None:
            kept &= ~hidden[rows]
        if nodata is not None:
            kept &= part != nodata
        if kept.any():
            least, most = min(least, float(part[kept].min())), max(most, float(part[kept].max()))
    if least > most:
        raise BrokenFileError("it holds no finite value")
    return least, most


def _distribution(
    values: Pixels, nodata: float | None, hidden: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The values that occur, ascending, and how often; integers of up to 16 bits are counted, others sampled."""
    if values.dtype.kind in "iub" and values.dtype.itemsize <= 2:
        return _counted(values, nodata, hidden)
    step = max(1, values.size // _SAMPLE_VALUES)
    sample = np.asarray(values[::step])
    kept = np.isfinite(sample)
    if hidden is not None:
        kept &= ~hidden[::step]
    if nodata is not None:
        kept &= sample != nodata
    levels, counts = np.unique(sample[kept], return_counts=True)
    return levels, counts.astype(np.int64)


def _counted(
    values: Pixels, nodata: float | None, hidden: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    least = int(np.iinfo(values.dtype).min) if values.dtype.kind == "i" else 0
    counts = np.zeros(65536, np.int64)
    for rows in _parts(values):
        part = np.asarray(values[rows])
        part = part.ravel() if hidden is None else part[~hidden[rows]]
        counts += np.bincount(part.astype(np.int64) - least, minlength=65536)
    levels = np.arange(65536) + least
    if nodata is not None:
        counts[levels == nodata] = 0
    return levels, counts


def _count_odd(pixels: Pixels, nodata: float | None, notes: Counter[str]) -> None:
    for rows in _parts(pixels):
        if pixels.dtype.kind == "f":
            notes["NaN pixels written as 0"] += int(np.isnan(pixels[rows]).sum())
            notes["infinite pixels written as 0 or 255"] += int(np.isinf(pixels[rows]).sum())
        if nodata is not None:
            notes["no-data pixels written as 0"] += int((pixels[rows] == nodata).sum())


def _parts(values: Pixels) -> Iterator[slice]:
    """Rows a part at a time, since the whole may lie in a file and not fit into memory."""
    rows = max(1, _PART_VALUES // max(1, values[0].size))
    return (slice(start, start + rows) for start in range(0, len(values), rows))
