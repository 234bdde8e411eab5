"""COCO's run lengths of masks, plain and compressed.

The compressed form is `rleFrString` of pycocotools' maskApi.c: numbers in groups of five bits, each after the first
three as the difference to the one before the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert.problems import BrokenFileError


def decoded(counts: Sequence[int] | str, width: int, height: int) -> npt.NDArray[np.bool_]:
    """The mask (H, W) of run lengths that alternate between outside and inside, column by column.

    Raises:
        BrokenFileError: They are no run lengths, or those of another size.
    """
    runs = uncompressed(counts) if isinstance(counts, str) else list(counts)
    if any(run < 0 for run in runs) or sum(runs) != width * height:
        raise BrokenFileError(f"its label has run lengths that are not those of {width} x {height} px")
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def uncompressed(text: str) -> list[int]:
    """The run lengths in COCO's compressed text.

    Raises:
        BrokenFileError: The text ends within a number.
    """
    runs: list[int] = []
    value, shift = 0, 0
    for character in text.encode("ascii", "replace"):
        group = character - 48
        value |= (group & 0x1F) << shift
        shift += 5
        if group & 0x20:  # more groups follow
            continue
        if group & 0x10:  # the sign
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value, shift = 0, 0
    if shift:
        raise BrokenFileError("its label has compressed run lengths that are cut off")
    return runs
