"""Sizes of images from their headers, for many files at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from yolo_ckpt.data.check.headers import read_header
from yolo_ckpt.data.check.scan import silent
from yolo_ckpt.data.host import MOST_PIXELS

THREADS = 8  # a header costs a seek or two; more threads only wait for Python's lock

Size = tuple[int, int]  # width and height in pixels


def image_sizes(paths: Sequence[str | Path]) -> list[Size | None]:
    """Width and height of every image, upright; None for what the host cannot open or drops for its size. Only headers
    are read, but for formats that Pillow decodes when it opens them (WebP, AVIF)."""
    with silent(), ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_image_size, map(str, paths)))


def _image_size(path: str) -> Size | None:
    header = read_header(path)
    return None if header.error or header.pixels > MOST_PIXELS else (header.width, header.height)
