"""Bytes and milliseconds as text."""

from __future__ import annotations

import pytest

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.units import format_bytes, format_ms, parse_bytes


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("2 KiB", 2048), ("1.5GB", 1_500_000_000), ("4g", 4 * 2**30)])
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 parsec", "0", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a size"):
        parse_bytes(text)


def test_text() -> None:
    assert (format_bytes(419 * 2**20), format_bytes(2.85 * 2**30)) == ("419 MiB", "2.85 GiB")
    assert (format_ms(85.4), format_ms(3210)) == ("85 ms", "3.21 s")
