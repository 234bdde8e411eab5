"""YOLO text: boxes `class x y w h`, or outlines `class x1 y1 x2 y2 ...`, as fractions of the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert.geometry import corners
from yolo_ckpt.data.convert.labels.items import Annotation, Item
from yolo_ckpt.data.convert.problems import BrokenFileError

# What the host lets pass (8.4.190, `data/utils.py: verify_image_label`).
_LEAST, _MOST = -0.01, 1.01


def annotation(path: Path, size: tuple[int, int], names: Sequence[str], keypoint_values: int = 0) -> Annotation:
    """The objects in a file, for a picture of `size` (width, height). Without `names`, classes are called by number. In
    rows with keypoints, which are `keypoint_values` numbers, the box is taken.

    Raises:
        BrokenFileError: A line cannot be understood, or names a class that is not there.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenFileError("its label cannot be read as text") from error
    notes: Counter[str] = Counter()
    items = []
    for number, words in enumerate(map(str.split, lines), 1):
        if keypoint_values and len(words) == 5 + keypoint_values:
            notes["keypoints left out"] += 1
            del words[5:]
        if words:
            items.append(_item(number, words, size, names))
    return Annotation(items=tuple(items), notes=notes)


def _item(number: int, words: list[str], size: tuple[int, int], names: Sequence[str]) -> Item:
    where = f"line {number} of its label"
    try:
        values = np.array([float(word) for word in words], np.float64)
    except ValueError:
        raise BrokenFileError(f"{where} is no YOLO label: numbers are expected") from None
    if len(values) != 5 and (len(values) < 7 or len(values) % 2 == 0):
        raise BrokenFileError(f"{where} has {len(values)} numbers; 5 are a box, 7, 9, ... an outline")
    index, given = values[0], values[1:]
    if index % 1 or index < 0 or (names and index >= len(names)):
        known = f"the data set has {len(names)} (from 0)" if names else "classes are whole numbers from 0"
        raise BrokenFileError(f"{where} has class {index:g}; {known}")
    if not (np.isfinite(given).all() and given.min() >= _LEAST and given.max() <= _MOST):
        raise BrokenFileError(f"{where} has values that are no fractions of the image")
    name = names[int(index)] if names else f"class_{index:.0f}"
    return _placed(name, given, np.array(size, np.float64))


def _placed(name: str, given: npt.NDArray[np.float64], size: npt.NDArray[np.float64]) -> Item:
    if len(given) > 4:
        return Item(name=name, rings=(given.reshape(-1, 2) * size,))
    (x0, y0), (x1, y1) = (given[:2] - given[2:] / 2) * size, (given[:2] + given[2:] / 2) * size
    box = (float(x0), float(y0), float(x1), float(y1))
    return Item(name=name, rings=(corners(box),), box=box, only_box=True)
