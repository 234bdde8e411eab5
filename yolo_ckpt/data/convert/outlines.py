"""Masks to outlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert.geometry import Points, Rect

# The host draws an outline by cutting its points to whole pixels and filling up to and with them (8.4.190,
# `data/utils.py: polygon2mask`). An outline this far inside the outer edges of its pixels is drawn as exactly these.
_INSET = 0.02
# The host brings all outlines of an image to as many points as the longest has, 1,000 at least (8.4.190,
# `data/dataset.py: update_labels_info`): one of 50,000 would cost 400 kB for each object beside it.
MOST_POINTS = 3000


@dataclass(frozen=True, kw_only=True)
class Outline:
    """The outline of one object of a mask.

    Attributes:
        rings: One for each connected part, (K, 2) in pixels.
        box: The upright rectangle around its pixels.
        holes: How many were filled.
        simplified: Whether points were left out, since there were more than `MOST_POINTS`.
    """

    rings: tuple[Points, ...]
    box: Rect
    holes: int
    simplified: bool


def outline(mask: npt.NDArray[Any], x0: int = 0, y0: int = 0) -> Outline | None:
    """The outline of what is not zero in `mask` (H, W), whose corner lies at (x0, y0); None where all is zero.

    Every pixel becomes 2 x 2 before OpenCV follows the border through pixel centres, so that an even coordinate is the
    left or upper side of a pixel and an odd one the other side: areas and boxes are those of the pixels, and a line one
    pixel wide has a width.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    top, left = int(rows[0]), int(columns[0])
    part = mask[top : rows[-1] + 1, left : columns[-1] + 1] != 0
    doubled = part.astype(np.uint8).repeat(2, axis=0).repeat(2, axis=1)
    found, tree = cv2.findContours(doubled, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    outer = [contour[:, 0] for contour, links in zip(found, tree[0], strict=True) if links[3] < 0]
    corner = np.array([x0 + left, y0 + top], np.float64)
    rings = [_sides(contour) + corner for contour in outer]
    kept = [_simple(ring) for ring in rings]
    box = (x0 + left, y0 + top, x0 + int(columns[-1]) + 1, y0 + int(rows[-1]) + 1)
    return Outline(
        rings=tuple(kept),
        box=(float(box[0]), float(box[1]), float(box[2]), float(box[3])),
        holes=len(found) - len(outer),
        simplified=any(len(a) != len(b) for a, b in zip(kept, rings, strict=True)),
    )


def _sides(contour: npt.NDArray[np.int32]) -> Points:
    points: Points = (contour // 2).astype(np.float64) + np.where(contour % 2, 1 - _INSET, _INSET)
    return points


def _simple(ring: Points) -> Points:
    tolerance_px = 0.5
    kept: Points = ring
    while len(kept) > MOST_POINTS:
        kept = cv2.approxPolyDP(ring.astype(np.float32)[:, None], tolerance_px, True)[:, 0].astype(np.float64)
        tolerance_px *= 1.5
    return kept
