"""The task of a data set, where it was not given: what its labels look like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from yolo_ckpt.data.check.dataset import TASKS, DataSet
from yolo_ckpt.data.check.scan import Item
from yolo_ckpt.errors import SettingsError

_LOOKED_AT = 50  # label files with rows


def task_of(data: DataSet, items: Sequence[Item], asked: str) -> tuple[str, bool]:
    """The task, and whether it was guessed.

    Raises:
        SettingsError: `asked` is none whose labels are text files.
    """
    if asked and asked not in TASKS:
        raise SettingsError(f"task={asked} is not checked; use one of {', '.join(TASKS)}")
    return (asked, False) if asked else (_guessed(data, items), True)


def _guessed(data: DataSet, items: Sequence[Item]) -> str:
    if data.keypoints != (0, 0):
        return "pose"
    columns: list[int] = []
    for item in items[:: max(len(items) // (4 * _LOOKED_AT), 1)]:
        columns += _columns(item.label_path)
        if len(columns) >= _LOOKED_AT:
            break
    polygons = [count for count in columns if count > 6]
    if 2 * len(polygons) <= len(columns):
        return "detect"
    return "obb" if all(count == 9 for count in polygons) else "segment"


def _columns(path: str) -> Iterable[int]:
    """How many columns the rows of a label file have."""
    try:
        return [len(line.split()) for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        return []
