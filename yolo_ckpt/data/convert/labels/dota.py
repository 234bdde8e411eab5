"""DOTA text: `x1 y1 x2 y2 x3 y3 x4 y4 class difficult`, after lines such as `imagesource:GoogleEarth` and `gsd:0.1`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from yolo_ckpt.data.convert.geometry import untwisted
from yolo_ckpt.data.convert.labels.items import Annotation, Item
from yolo_ckpt.data.convert.problems import BrokenFileError


def annotation(path: Path, *, drop_difficult: bool) -> Annotation:
    """The objects in a file.

    Raises:
        BrokenFileError: A line cannot be understood.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenFileError("its label cannot be read as text") from error
    notes: Counter[str] = Counter()
    items = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or is_heading(line):
            continue
        if drop_difficult and words[9:10] not in ([], ["0"]):
            notes["difficult objects left out"] += 1
            continue
        items.append(_item(words, number))
    return Annotation(items=tuple(items), notes=notes)


def is_heading(line: str) -> bool:
    """Whether a line says something about the image rather than about an object."""
    return line.strip().split(":", 1)[0].lower() in ("imagesource", "gsd", "acquisition dates") and ":" in line


def _item(words: list[str], number: int) -> Item:
    try:
        points = np.array([float(word) for word in words[:8]], np.float64).reshape(4, 2)
        if not np.isfinite(points).all() or len(words) not in (9, 10):
            raise ValueError
    except ValueError:
        raise BrokenFileError(f"line {number} of its label is no DOTA: 8 numbers, a class, and 0 or 1 or 2") from None
    return Item(name=words[8], rings=(untwisted(points),))
