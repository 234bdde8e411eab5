"""Random fields that made pictures are painted with: noise, smooth noise, curves.

They come from `numpy.random.RandomState`, whose numbers are promised to stay the same in every release of NumPy, and
from arithmetic that is the same on every machine up to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yolo_ckpt.data.samples.files import Image

Field = NDArray[np.float32]
Random = np.random.RandomState

_FOUR_BYTES = np.float32(2 * np.sqrt((256**2 - 1) / 12))  # standard deviation of their sum


def grain(rng: Random, height: int, width: int) -> Field:
    """White noise (height, width) of mean 0 and deviation 1: sums of four bytes, which are close to normal."""
    total = np.full((height, width), -510, np.float32)
    for _ in range(4):
        total += np.frombuffer(rng.bytes(height * width), np.uint8).reshape(height, width)
    total /= _FOUR_BYTES
    return total


def smooth(rng: Random, height: int, width: int, across: float, down: float) -> Field:
    """Noise (height, width) of mean 0 and deviation near 1 whose features are `across` pixels wide and `down` high.

    Made at the resolution of its features and enlarged.
    """
    import cv2

    coarse = grain(rng, max(round(height / down), 1) + 3, max(round(width / across), 1) + 3)
    coarse = (coarse - coarse.mean()) * (np.float32(1.3) / coarse.std())  # interpolation takes some of it away
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), dtype=np.float32)


def curve(rng: Random, length: int, features: float) -> Field:
    """Smooth noise (length,) with features of that many pixels."""
    return np.asarray(smooth(rng, 1, length, features, 1)[0])


def rounded(image: Field) -> Image:
    """Grey values as 8 bit."""
    return np.clip(np.round(image), 0, 255).astype(np.uint8)


def bounds(mask: Image, left: int = 0, top: int = 0) -> tuple[int, int, int, int] | None:
    """The box x0, y0, x1, y1 (ends excluded) around what is set in a mask; None where nothing is. `left` and `top` say
    where the mask lies in its image."""
    xs, ys = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not len(xs):
        return None
    return left + int(xs[0]), top + int(ys[0]), left + int(xs[-1]) + 1, top + int(ys[-1]) + 1
