"""Bytes and milliseconds to text, and byte counts from text."""

from __future__ import annotations

import re

from yolo_ckpt.errors import SettingsError

_FACTORS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 2**10, "m": 2**20, "g": 2**30, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_BYTES = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(text: str, flag: str = "value") -> int:
    """`22GiB`, `8GB`, `512 MiB` or a plain number as bytes.

    Raises:
        SettingsError: `text` is not a positive size; the message names `flag`.
    """
    match = _BYTES.fullmatch(text)
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None or float(match[1]) * factor < 1:
        raise SettingsError(f"{flag}={text} is not a size in bytes; write a size such as 22GiB or 8GB")
    return int(float(match[1]) * factor)


def format_bytes(nbytes: float) -> str:
    """Bytes as `419 MiB` or `2.85 GiB`."""
    if nbytes >= 2**30:
        return f"{nbytes / 2**30:.2f} GiB"
    return f"{nbytes / 2**20:.0f} MiB"


def format_ms(milliseconds: float) -> str:
    """Milliseconds as `85 ms` or `3.21 s`."""
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.0f} ms"


def many(count: int, one: str, more: str = "") -> str:
    """`1 row`, `2 rows`; `more` where the plural has another end."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
