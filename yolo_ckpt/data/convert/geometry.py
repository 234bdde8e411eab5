"""Outlines as rings of points: cutting to a rectangle, area, joining, the smallest turned rectangle."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
Rect = tuple[float, float, float, float]  # x0, y0, x1, y1


def corners(rect: Rect) -> Points:
    """The ring of a rectangle, (4, 2)."""
    x0, y0, x1, y1 = rect
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)


def bounds(points: Points) -> Rect:
    """The smallest upright rectangle around points (K, 2)."""
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    return float(x0), float(y0), float(x1), float(y1)


def overlap(one: Rect, other: Rect) -> Rect | None:
    """What two rectangles share, None where that has no area."""
    x0, y0, x1, y1 = max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


def area(ring: Points) -> float:
    """Area of a ring (K, 2), by the shoelace formula."""
    centred = ring - ring[0]  # large coordinates would cancel
    x, y = centred[:, 0], centred[:, 1]
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def clipped(ring: Points, rect: Rect) -> Points:
    """The part of a ring (K, 2) within `rect`, (L, 2); (0, 2) where nothing is.

    Sutherland and Hodgman, "Reentrant polygon clipping", CACM 17(1), 1974. Parts of a concave ring come out connected
    by edges along the border, without width: one outline, as a YOLO label has to be, with the exact area.
    """
    x0, y0, x1, y1 = rect
    for axis, bound, sign in ((0, x0, 1.0), (0, x1, -1.0), (1, y0, 1.0), (1, y1, -1.0)):
        ring = _half(ring, axis, bound, sign)
        if len(ring) < 3:
            return np.empty((0, 2))
    return ring


def _half(ring: Points, axis: int, bound: float, sign: float) -> Points:
    """The part of a ring where `sign * (coordinate - bound)` is not negative."""
    depth = sign * (ring[:, axis] - bound)
    inside = depth >= 0
    if inside.all():
        return ring
    following, beyond = np.roll(ring, -1, axis=0), np.roll(depth, -1)
    crosses = inside != np.roll(inside, -1)
    share = np.divide(depth, depth - beyond, out=np.zeros_like(depth), where=crosses)
    cuts = ring + share[:, None] * (following - ring)
    cuts[:, axis] = bound  # exactly, whatever was rounded
    kept = np.stack([inside, crosses], axis=1).ravel()  # a vertex, then where its edge crosses the line
    points: Points = np.stack([ring, cuts], axis=1).reshape(-1, 2)[kept]
    return points


def joined(rings: Sequence[Points]) -> Points:
    """One ring through all: from each to the nearest point of the next and back, over a bridge without width."""
    if len(rings) == 1:
        return rings[0]
    from scipy.spatial import cKDTree  # slow to import, and most objects are in one piece

    whole = rings[0]
    for ring in rings[1:]:
        distances, nearest = cKDTree(whole).query(ring)
        there = int(np.argmin(distances))
        here = int(nearest[there])
        whole = np.concatenate([whole[: here + 1], ring[there:], ring[: there + 1], whole[here:]])
    return whole


def turned_rectangle(points: Points) -> Points:
    """The smallest rectangle around points (K, 2), at any angle, (4, 2)."""
    middle = points.mean(axis=0)  # OpenCV works in float32
    found = cv2.boxPoints(cv2.minAreaRect((points - middle).astype(np.float32)))
    turned: Points = np.asarray(found, np.float64) + middle
    return turned


def untwisted(ring: Points) -> Points:
    """A ring of four points in an order that goes round; a bow tie has its corners in another order."""
    around = hull(ring)
    twisted = len(ring) == len(around) == 4 and area(ring) < 0.999 * area(around)
    return around if twisted else ring


def hull(points: Points) -> Points:
    """The convex hull of points (K, 2), as a ring."""
    found = cv2.convexHull(points.astype(np.float32), returnPoints=False)
    ring: Points = points[found[:, 0]]
    return ring
