"""Grey levels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.convert.window import Choice, Window, measured


def test_values_up_to_2047_keep_their_grey_levels() -> None:
    values = np.random.default_rng(0).integers(0, 2048, (256, 256, 1), dtype=np.uint16)
    levels = measured(values, Choice(), Counter()).apply(values)
    assert len(np.unique(values >> 8)) == 8  # stock: the high byte
    assert len(np.unique(levels)) >= 200


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.int32, np.float32, np.float64])
def test_percentiles_are_those_of_numpy(dtype: type) -> None:
    values = np.random.default_rng(1).normal(900, 200, (300, 200, 1)).astype(dtype)
    window = measured(values, Choice(percentiles=(2, 97)), Counter())
    low, high = np.percentile(values, (2, 97))
    step = 1.01 if np.issubdtype(dtype, np.integer) else 0.5
    assert window.low[0] == pytest.approx(low, abs=step)
    assert window.high[0] == pytest.approx(high, abs=step)
    levels = window.apply(values)
    expected = np.clip((values.astype(np.float64) - window.low[0]) / (window.high[0] - window.low[0]) * 255, 0, 255)
    assert np.abs(levels - expected).max() <= 0.501


def test_a_table_for_large_images_gives_what_arithmetic_gives() -> None:
    values = np.random.default_rng(2).integers(-3000, 3000, (400, 300, 1), dtype=np.int16)
    window = measured(values, Choice(), Counter(), inverted=True)
    assert values.size > 65536
    parts = np.concatenate([window.apply(values[i : i + 100]) for i in range(0, 400, 100)])
    assert (window.apply(values) == parts).all()
    assert (window.apply(values.astype(">i2")) == parts).all()


def test_nan_and_infinite_values() -> None:
    values = np.linspace(0, 1, 10000, dtype=np.float32).reshape(100, 100, 1)
    values[0, :5], values[1, 0], values[1, 1] = np.nan, np.inf, -np.inf
    notes: Counter[str] = Counter()
    levels = measured(values, Choice(), notes).apply(values)
    assert (levels[0, :5] == 0).all()
    assert (levels[1, 0], levels[1, 1]) == (255, 0)
    assert notes["NaN pixels written as 0"] == 5
    assert notes["infinite pixels written as 0 or 255"] == 2
    assert len(np.unique(levels)) == 256


def test_no_finite_value_is_an_error() -> None:
    with pytest.raises(BrokenFileError, match="no finite value"):
        measured(np.full((4, 4, 1), np.nan, np.float32), Choice(), Counter())


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int32])
def test_nodata_is_black_and_not_measured(dtype: type) -> None:
    values = np.random.default_rng(3).uniform(100, 1000, (64, 64, 1)).astype(dtype)
    values[:32] = -9999
    levels = measured(values, Choice(), Counter(), nodata=-9999.0).apply(values)
    assert (levels[:32] == 0).all()
    assert len(np.unique(levels[32:])) > 200


def test_bright_specks_on_an_even_ground_do_not_saturate() -> None:
    values = np.full((200, 200, 1), 100, np.uint16)
    values[50:53, 50:53, 0] = np.arange(1000, 1900, 100).reshape(3, 3)
    window = measured(values, Choice(), Counter())
    assert "one value" in window.text
    assert len(np.unique(window.apply(values))) == 10


def test_a_constant_image_is_black() -> None:
    with np.errstate(all="raise"):
        values = np.full((20, 20, 1), 7, np.uint16)
        assert (measured(values, Choice(), Counter()).apply(values) == 0).all()


def test_given_and_full() -> None:
    values = np.array([0, 100, 150, 200, 4000], np.uint16).reshape(1, 5, 1)
    given = measured(values, Choice(kind="given", numbers=(100, 200)), Counter()).apply(values)
    assert given.ravel().tolist() == [0, 0, 128, 255, 255]
    assert measured(values, Choice(kind="full"), Counter()).apply(values).ravel().tolist() == [0, 6, 10, 13, 255]


def test_bands_have_windows_of_their_own() -> None:
    values = np.stack([np.linspace(0, 100, 400), np.linspace(5000, 9000, 400)], -1).reshape(20, 20, 2)
    apart = measured(values, Choice(kind="full"), Counter(), per_band=True).apply(values)
    together = measured(values, Choice(kind="full"), Counter()).apply(values)
    assert (apart.min(axis=(0, 1)) == 0).all()
    assert (apart.max(axis=(0, 1)) == 255).all()
    assert together[..., 0].max() < 5


def test_bytes_stay_as_they_are() -> None:
    values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    assert (Window().apply(values) == values).all()
    assert (Window(inverted=True).apply(values) == 255 - values).all()


def test_the_full_range_is_that_of_all_values() -> None:
    """Also where percentiles would be taken from a part of them."""
    values = np.random.default_rng(0).random((4500, 2000, 1), np.float32)  # of which every second row
    values[1, 0], values[1, 1], values[1, 2] = 100, -5, np.nan
    window = measured(values, Choice(kind="full"), Counter())
    assert (window.low, window.high) == ((-5.0,), (100.0,))
    even = np.zeros_like(values)
    even[1, 0] = 7
    assert measured(even, Choice(), Counter()).high == (7.0,)
