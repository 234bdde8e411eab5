"""Outlines of masks: the pixels and nothing else, drawn by the host and counted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage

from tests.data.convert.conftest import blobs
from yolo_ckpt.data.convert import geometry
from yolo_ckpt.data.convert.outlines import MOST_POINTS, outline


def drawn(rings: tuple[npt.NDArray[np.float64], ...], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """As the host draws an outline for training, from a label's text."""
    from ultralytics.data.utils import polygon2mask

    mask = np.zeros(shape, bool)
    for ring in rings:
        size = np.array(shape[::-1])
        text = " ".join(f"{v:.7g}" for v in (ring / size).ravel())
        read = np.array(text.split(), np.float32).reshape(-1, 2) * size.astype(np.float32)
        mask |= polygon2mask(shape, [read.ravel()]) > 0
    return mask


@pytest.mark.parametrize("seed", range(8))
def test_the_host_draws_the_same_pixels_again(seed: int) -> None:
    numbered = blobs(150, 187, 6, seed)
    for number in range(1, 7):
        mask = ndimage.binary_fill_holes(numbered == number)
        if not mask.any():
            continue
        found = outline(mask)
        assert found is not None
        assert (drawn(found.rings, mask.shape) == mask).all()
        assert sum(map(geometry.area, found.rings)) == pytest.approx(mask.sum(), rel=0.06)
        rows, columns = np.nonzero(mask)
        assert found.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_a_line_one_pixel_wide_has_a_width() -> None:
    mask = np.zeros((40, 40), np.uint8)
    mask[5:35, 12] = 1
    found = outline(mask)
    assert found is not None
    x0, y0, x1, y1 = geometry.bounds(found.rings[0])
    assert (x1 - x0, y1 - y0) == (pytest.approx(1, abs=0.05), pytest.approx(30, abs=0.05))
    assert (drawn(found.rings, mask.shape) == (mask > 0)).all()


def test_holes_are_counted_and_parts_kept() -> None:
    mask = np.zeros((40, 60), np.uint8)
    mask[5:25, 5:25] = 1
    mask[10:15, 10:15] = 0
    mask[30:35, 40:50] = 1
    found = outline(mask, x0=100, y0=200)
    assert found is not None
    assert (len(found.rings), found.holes) == (2, 1)
    assert found.box == (105, 205, 150, 235)


def test_nothing_has_no_outline() -> None:
    assert outline(np.zeros((5, 5), np.uint8)) is None


def test_long_outlines_are_made_shorter_and_say_so() -> None:
    rng = np.random.default_rng(1)
    parts = ndimage.label(ndimage.gaussian_filter(rng.normal(size=(1200, 1200)), 4) > -0.005)[0]
    mask = ndimage.binary_fill_holes(parts == np.bincount(parts.ravel())[1:].argmax() + 1)
    found = outline(mask)
    assert found is not None
    assert found.simplified
    assert max(map(len, found.rings)) <= MOST_POINTS
    overlap = drawn(found.rings, mask.shape)
    assert (overlap & mask).sum() / (overlap | mask).sum() > 0.97
