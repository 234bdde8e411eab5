"""What `rect=True` saves, or would save: images far from square are mostly padding in square batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yolo_ckpt.integration import compat, hostdata
from yolo_ckpt.integration.conditions import SQUARE, STRIDE
from yolo_ckpt.integration.run import Run
from yolo_ckpt.reporting import rect_line

WORTH_IT = 0.7  # of the square's pixels: 16:9 images have 0.57, 4:3 ones 0.75


@dataclass(frozen=True, kw_only=True)
class Rectangles:
    """The training batches of a data set with `rect=True`.

    Attributes:
        height: Of the largest, in pixels.
        width: Of the largest.
        shapes: How many different ones there are.
        share: Their pixels as a share of those of square batches.
    """

    height: int
    width: int
    shapes: int
    share: float


def rectangles_of(sizes: Sequence[tuple[int, int]], imgsz: int) -> Rectangles:
    """Batches of one image for images of these heights and widths, whose longer side becomes `imgsz`."""
    shapes = [(_side(h, max(h, w), imgsz), _side(w, max(h, w), imgsz)) for h, w in sizes]
    return _of_shapes(shapes, imgsz)


def _side(side: int, longer: int, imgsz: int) -> int:
    return max(math.ceil(side / longer * imgsz / STRIDE - 1e-6), 1) * STRIDE


def _of_shapes(shapes: Sequence[tuple[int, int]], imgsz: int) -> Rectangles:
    height, width = max(shapes, key=lambda shape: shape[0] * shape[1])
    share = sum(h * w for h, w in shapes) / len(shapes) / imgsz**2
    return Rectangles(height=height, width=width, shapes=len(set(shapes)), share=share)


def log_rectangles(trainer: Any, run: Run | None) -> None:
    """One line: with `rect=True` what square training would have cost; without, what `rect=True` would save, where that
    is much. Called once the loaders are built."""
    data, imgsz = trainer.train_loader.dataset, int(trainer.args.imgsz)
    rect = bool(getattr(data, "rect", False))
    shapes, sizes = hostdata.batch_shapes(data), hostdata.image_heights_widths(data)
    if int(trainer.world_size) > 1 or not (shapes if rect else sizes):
        return
    found = _of_shapes(shapes, imgsz) if rect else rectangles_of(sizes, imgsz)
    if rect or found.share <= WORTH_IT:
        sides = SQUARE if rect else (found.height / imgsz, found.width / imgsz)
        peak, other = (None, None) if run is None else run.peaks_with(trainer, sides)
        compat.log(rect_line(found, imgsz=imgsz, rect=rect, peak_bytes=peak, other_peak_bytes=other))
