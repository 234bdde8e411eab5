"""Letters as strokes, as silkscreen has them; drawn here because OpenCV's own fonts differ between its versions."""

from __future__ import annotations

import numpy as np

from yolo_ckpt.data.samples.files import Image

# Strokes on a grid 4 wide and 6 high, each a run of points `xy`, from the top left.
_STROKES = {
    "0": "01 03 05 16 36 45 43 41 30 10 01", "1": "12 20 26", "2": "01 10 30 41 42 06 46",
    "3": "00 40 22 43 45 36 16 05", "4": "36 30 04 44",
    "5": "40 00 02 32 43 45 36 06", "6": "30 12 04 05 16 36 45 44 33 03", "7": "00 40 16",
    "8": "13 02 01 10 30 41 42 33 13 04 05 16 36 45 44 33", "9": "43 13 02 01 10 30 41 43 34 16",
    "A": "06 20 46|14 34", "B": "03 33 44 45 36 06 00 30 41 42 33", "C": "41 30 10 01 05 16 36 45",
    "D": "00 06 26 44 42 20 00", "E": "40 00 06 46|03 33", "J": "40 44 35 26 16 05", "M": "06 00 23 40 46",
    "N": "06 00 46 40", "O": "01 05 16 36 45 41 30 10 01", "P": "06 00 30 41 42 33 03",
    "R": "06 00 30 41 42 33 03|23 46", "S": "41 30 10 01 02 13 33 44 45 36 16 05",
    "U": "00 05 16 36 45 40", "V": "00 26 40",
    "Y": "00 23 40|23 26", " ": "",
}  # fmt: skip
ADVANCE = 6  # from one letter to the next, in grid units


def write(image: Image, words: str, at: tuple[int, int], height: float, thickness: int = 3) -> None:
    """Write words into a mask (H, W); `at` is their lower left corner, x and y."""
    import cv2

    unit = height / 6
    for place, letter in enumerate(words):
        origin = np.array((at[0] + place * ADVANCE * unit, at[1] - height))
        for stroke in _STROKES[letter].split("|"):
            points = [origin + unit * np.array((int(xy[0]), int(xy[1]))) for xy in stroke.split()]
            if points:
                cv2.polylines(image, [np.round(points).astype(np.int32)], False, 255, thickness, cv2.LINE_AA)
