"""A label file, judged row by row as the host does (8.4.190, `verify_image_label`): it drops the whole image for one
wrong row, and says so in one line among thousands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_OUTER, _LOWER = 1.01, -0.01  # what the host lets pass as rounding
_NONE = np.zeros((0, 4), np.float32)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the rows of a data set have to be.

    Attributes:
        task: `detect`, `segment`, `obb` or `pose`.
        classes: How many there are; 0 where any will do (`single_cls=True`).
        points: Keypoints of an object.
        dims: Numbers of a keypoint.
    """

    task: str
    classes: int
    points: int = 0
    dims: int = 0

    @property
    def columns(self) -> int:
        """Of a row that is no polygon."""
        return 5 + self.points * self.dims if self.task == "pose" else 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """A frozen record of one label file.

    Attributes:
        found: There is one.
        boxes: Centre and sides as shares of the image (N, 4); those that the host keeps.
        sides: Sides of the rotated boxes in pixels (N, 2); None where boxes are upright.
        polygons: Rows that are polygons.
        duplicates: Rows that the host removes.
        code: Why the host drops the image: `label-malformed`, `label-outside`, `label-class`, `label-unreadable`, or
            nothing.
        reason: The same in words, with the first such row.
    """

    found: bool = False
    boxes: Floats = field(default_factory=lambda: _NONE)
    sides: Floats | None = None
    polygons: int = 0
    duplicates: int = 0
    code: str = ""
    reason: str = ""


class _WrongError(Exception):
    """The host drops the image."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def read_labels(path: str, rules: Rules, width: int, height: int) -> Labels:
    """The labels in `path`, for an image of that size."""
    if not os.path.isfile(path):  # noqa: PTH113 (false, not an error, below a folder that may not be read)
        return Labels()
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return Labels(found=True, code="label-unreadable", reason=f"byte {error.start} is not UTF-8")
    except OSError as error:
        return Labels(found=True, code="label-unreadable", reason=(error.strerror or "cannot be opened").lower())
    try:
        return _judged([line.split() for line in text.strip().splitlines() if line.strip()], rules, width, height)
    except _WrongError as error:
        return Labels(found=True, code=error.code, reason=error.reason)


def _judged(rows: list[list[str]], rules: Rules, width: int, height: int) -> Labels:
    if not rows:
        return Labels(found=True)
    keypoints = rules.points * rules.dims
    if keypoints and rules.task != "pose":  # the host takes the boxes of pose labels for other tasks
        rows = [row[:5] if len(row) == 5 + keypoints else row for row in rows]
    polygons = rules.task != "pose" and max(map(len, rows)) > 6
    if polygons:
        table, segments = _of_polygons(rows)
    else:
        table, segments = _of_columns(rows, rules), []
    _check(table, rules)
    kept = _distinct(table, segments)
    sides = None
    if rules.task == "obb" and segments:
        sides = np.array([_sides(segments[i], width, height) for i in kept], np.float32).reshape(-1, 2)
    return Labels(
        found=True, boxes=table[kept, 1:5], sides=sides, polygons=len(segments) and len(kept),
        duplicates=len(rows) - len(kept),
    )  # fmt: skip


def _of_columns(rows: list[list[str]], rules: Rules) -> Floats:
    for number, row in enumerate(rows, 1):
        if len(row) != rules.columns:
            what = "a polygon needs 3 points, " if len(row) == 6 else ""
            raise _WrongError(
                "label-malformed", f"row {number} has {len(row)} columns; {what}task={rules.task} has {rules.columns}"
            )
    return _numbers(rows)


def _of_polygons(rows: list[list[str]]) -> tuple[Floats, list[Floats]]:
    """Class and box of every polygon (N, 5), and the polygons (K, 2)."""
    for number, row in enumerate(rows, 1):
        if len(row) == 5:
            raise _WrongError(
                "label-malformed", f"row {number} is a box, or a polygon of 2 points, among polygons of 3 and more"
            )
        if len(row) % 2 == 0 or len(row) < 3:
            raise _WrongError(
                "label-malformed", f"row {number} has {len(row)} columns; a polygon has 1 + 2 for each point"
            )
    numbers = [_numbers([row], number)[0] for number, row in enumerate(rows, 1)]
    segments = [row[1:].reshape(-1, 2) for row in numbers]
    low, high = (np.array([end(s, 0) for s in segments], np.float32) for end in (np.min, np.max))
    classes = np.array([[row[0]] for row in numbers], np.float32)
    return np.concatenate((classes, (low + high) / 2, high - low), 1), segments


def _numbers(rows: list[list[str]], first: int = 1) -> Floats:
    try:
        return np.array(rows, np.float32)
    except ValueError:
        raise _WrongError("label-malformed", _not_a_number(rows, first)) from None


def _not_a_number(rows: Sequence[Sequence[str]], first: int) -> str:
    for number, row in enumerate(rows, first):
        for word in row:
            try:
                float(word)
            except ValueError:
                return f"row {number}: {word[:40]} is not a number"
    return f"row {first} cannot be read"


def _check(table: Floats, rules: Rules) -> None:
    """Coordinates and classes, in the host's order. Written so that what is not a number is wrong.

    Raises:
        _WrongError: The host drops the image.
    """
    shares = table[:, 1:]
    if rules.task == "pose":
        shares = table[:, 5:].reshape(len(table), -1, rules.dims)[..., :2].reshape(len(table), -1)
    if not shares.max() <= _OUTER:
        raise _outside(shares, ~(shares <= _OUTER), "coordinates are shares of the image, at most 1")
    lowest = table.min()
    if not (lowest >= 0 or (lowest >= _LOWER and table[:, 3:5].min() >= 0)):
        wrong = ~(table >= _LOWER)
        wrong[:, 3:5] |= ~(table[:, 3:5] >= 0)
        if wrong[:, 0].any():
            raise _of_class(table, wrong[:, 0], rules)
        raise _outside(table, wrong, "it is negative")
    if (table[:, 0] % 1 != 0).any():
        raise _of_class(table, table[:, 0] % 1 != 0, rules)
    if rules.classes and table[:, 0].max() >= rules.classes:
        raise _of_class(table, table[:, 0] >= rules.classes, rules)


def _outside(values: Floats, wrong: npt.NDArray[np.bool_], why: str) -> _WrongError:
    row, column = np.argwhere(wrong)[0]
    rows = int(wrong.any(1).sum())
    more = f" ({rows} rows)" if rows > 1 else ""
    return _WrongError("label-outside", f"row {row + 1}: {values[row, column]:g}; {why}{more}")


def _of_class(table: Floats, wrong: npt.NDArray[np.bool_], rules: Rules) -> _WrongError:
    row = int(np.argmax(wrong))
    known = f"the data set has {rules.classes} (0 to {rules.classes - 1})"
    more = f" ({int(wrong.sum())} rows)" if wrong.sum() > 1 else ""
    return _WrongError("label-class", f"row {row + 1}: class {table[row, 0]:g}; {known}{more}")


def _distinct(table: Floats, segments: list[Floats]) -> npt.NDArray[np.intp]:
    """The rows that are left when equal ones are one; different polygons may have the same box."""
    kept = np.unique(table, axis=0, return_index=True)[1]
    if len(kept) < len(table) and segments:
        known: dict[bytes, int] = {}
        for i, segment in enumerate(segments):
            known.setdefault(table[i, 0].tobytes() + segment.tobytes(), i)
        return np.array(list(known.values()), np.intp)
    return kept


def _sides(polygon: Floats, width: int, height: int) -> tuple[float, float]:
    """Sides in pixels of the smallest rotated box around a polygon, which the host trains on (`xyxyxyxy2xywhr`)."""
    import cv2

    first, second = cv2.minAreaRect(polygon * np.array([width, height], np.float32))[1]
    return float(first), float(second)
