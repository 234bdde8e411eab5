"""A picture as it was read, and turning it upright."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert.window import Window
from yolo_ckpt.data.host import SIDES_SWAPPED

Pixels = npt.NDArray[Any]
Points = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the header of a source file says, without its pixels.

    Attributes:
        width: Of the upright picture.
        height: Of the upright picture.
        frames: Pictures in the file.
        bytes_needed: Memory that reading and writing one frame may take.
        group: Files with the same one stay in the same split; empty where the file stands alone.
    """

    width: int
    height: int
    frames: int = 1
    bytes_needed: int = 0
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One upright picture.

    Attributes:
        pixels: (H, W, C) values as stored, RGB order where they are colours; may lie in a mapped file.
        window: Makes 8-bit values of them.
        orientation: The EXIF orientation that was undone, 1 for none.
        notes: What was done to it that its owner should know, counted.
        dropped: What the file says besides its pixels, by kind; none of it is written.
    """

    pixels: Pixels
    window: Window
    orientation: int = 1
    notes: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), upright."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def stored_size(self) -> tuple[int, int]:
        """(width, height) before it was turned upright."""
        return self.size[::-1] if self.orientation in SIDES_SWAPPED else self.size


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """`pixels` (H, W, ...) with EXIF orientation 1 to 8 undone; a view."""
    if orientation in SIDES_SWAPPED:
        pixels = pixels.swapaxes(0, 1)
    if orientation in {2, 3, 6, 7}:
        pixels = pixels[:, ::-1]
    if orientation in {3, 4, 7, 8}:
        pixels = pixels[::-1]
    return pixels


def upright_points(points: Points, orientation: int, width: int, height: int) -> Points:
    """Points (K, 2) on the stored picture of `width` x `height`, on the upright one."""
    x, y = points[:, 0], points[:, 1]
    if orientation in SIDES_SWAPPED:
        x, y, width, height = y, x, height, width
    if orientation in {2, 3, 6, 7}:
        x = width - x
    if orientation in {3, 4, 7, 8}:
        y = height - y
    return np.stack([x, y], axis=1)
