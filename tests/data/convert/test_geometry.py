"""Cutting outlines, against pixels that are counted one by one."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.path import Path as Outline

from yolo_ckpt.data.convert import geometry

GRID = 0.25  # px


def covered(ring: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.bool_]:
    """Which points of a fine grid over `size` px lie in a ring: matplotlib's point-in-polygon, nothing of ours."""
    steps = np.arange(GRID / 2, size, GRID)
    points = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    return Outline(np.vstack([ring, ring[:1]]), closed=True).contains_points(points).reshape(len(steps), -1)


def star(rng: np.random.Generator, size: int, points: int = 14) -> npt.NDArray[np.float64]:
    """A concave ring without self-intersections, partly outside of `size` px."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, points))
    radii = rng.uniform(4, 0.7 * size, points)
    return rng.uniform(0.2 * size, 0.6 * size, 2) + np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None]


@pytest.mark.parametrize("seed", range(12))
def test_cutting_keeps_exactly_what_lies_within(seed: int) -> None:
    rng, size = np.random.default_rng(seed), 64
    ring = star(rng, size)
    x0, y0 = rng.uniform(0, 30, 2)
    rect = (float(x0), float(y0), float(x0 + rng.uniform(10, 30)), float(y0 + rng.uniform(10, 30)))
    steps = np.arange(GRID / 2, size, GRID)
    within = np.outer((steps > rect[1]) & (steps < rect[3]), (steps > rect[0]) & (steps < rect[2]))
    expected = covered(ring, size) & within
    cut = geometry.clipped(ring, rect)
    assert len(cut) > 2
    found = covered(cut, size)
    assert (found != expected).sum() <= 2  # points on an edge
    assert geometry.area(cut) == pytest.approx(expected.sum() * GRID**2, rel=0.03, abs=1)
    assert geometry.overlap(geometry.bounds(cut), rect) == geometry.bounds(cut)


def test_what_lies_within_is_left_alone_and_what_lies_outside_is_gone() -> None:
    ring = np.array([[2.0, 2], [8, 3], [5, 9]])
    assert geometry.clipped(ring, (0, 0, 10, 10)) is ring
    assert len(geometry.clipped(ring, (20, 0, 30, 10))) == 0
    assert (
        len(geometry.clipped(ring, (8, 0, 30, 10))) == 0 or geometry.area(geometry.clipped(ring, (8, 0, 30, 10))) == 0
    )


def test_area_of_far_and_small() -> None:
    ring = np.array([[30000.0, 20000], [30003, 20000], [30003, 20002], [30000, 20002]])
    assert geometry.area(ring) == pytest.approx(6, abs=1e-9)


def test_joined_rings_cover_what_they_covered() -> None:
    rings = [geometry.corners(r) for r in ((2, 2, 12, 12), (20, 4, 30, 16), (6, 24, 14, 40))]
    whole = geometry.joined(rings)
    expected = np.logical_or.reduce([covered(ring, 48) for ring in rings])
    assert (covered(whole, 48) != expected).mean() < 1e-3
    assert geometry.area(whole) == pytest.approx(sum(map(geometry.area, rings)))


def test_the_turned_rectangle_is_the_smallest() -> None:
    turn = np.deg2rad(30)
    along, across = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    corners = 20000 + np.array([a * along * 30 + b * across * 8 for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    inner = np.concatenate([corners, corners.mean(0) + (corners - corners.mean(0)) * 0.4])
    found = geometry.turned_rectangle(inner)
    distance = np.abs(found[:, None] - corners[None]).sum(-1).min(1)
    assert distance.max() < 0.02
    assert geometry.area(found) == pytest.approx(4 * 30 * 8, rel=1e-3)


def test_a_bow_tie_is_untwisted() -> None:
    square = geometry.corners((0, 0, 4, 4))
    assert geometry.area(geometry.untwisted(square[[0, 2, 1, 3]])) == pytest.approx(16)
    assert geometry.untwisted(square) is square
    dart = np.array([[0.0, 0], [4, 0], [1, 1], [0, 4]])  # concave, not twisted
    assert geometry.untwisted(dart) is dart


def test_the_hull_is_a_ring() -> None:
    points = np.random.default_rng(0).uniform(0, 10, (40, 2))
    expected = cv2.contourArea(cv2.convexHull(points.astype(np.float32)))
    assert geometry.area(geometry.hull(points)) == pytest.approx(expected, rel=1e-5)
