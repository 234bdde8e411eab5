"""Sizes of images from their headers, for many files at a time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

THREADS = 8  # a header costs a seek or two; more threads only wait for Python's lock

Size = tuple[int, int]  # width and height in pixels


def image_sizes(paths: Sequence[str | Path]) -> list[Size | None]:
    """Width and height of every image, turned as its EXIF orientation says; None where the host could not open it.

    Only headers are read, in threads. The host (8.4.190, `exif_size`) decides what an orientation changes.
    """
    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as pool:
        warnings.simplefilter("ignore")  # about large images, which the host trains on
        return list(pool.map(_image_size, paths))


def _image_size(path: str | Path) -> Size | None:
    from PIL import Image
    from ultralytics.data.utils import exif_size

    from yolo_ckpt.integration.hostdata import image_opener

    try:
        with image_opener(path)(path) as image:
            width, height = exif_size(image)
    except (OSError, ValueError, EOFError, ImportError, Image.DecompressionBombError):
        return None
    return int(width), int(height)
