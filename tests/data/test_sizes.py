"""Sizes from headers: as the host sees them, and None for what it could not open."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from yolo_ckpt.data.sizes import image_sizes

pytest.importorskip("ultralytics")


def write(path: Path, width: int, height: int, orientation: int = 1) -> Path:
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(path, exif=exif.tobytes())
    return path


def test_sizes_in_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{w}.png", w, 20) for w in range(20, 60)]
    assert image_sizes(paths) == [(w, 20) for w in range(20, 60)]
    assert image_sizes([]) == []


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_turned_as_the_host_reads_them(suffix: str, orientation: int, tmp_path: Path) -> None:
    from ultralytics.utils.patches import imread

    path = write(tmp_path / f"a.{suffix}", 40, 20, orientation)
    height, width = imread(str(path)).shape[:2]
    assert image_sizes([path]) == [(width, height)]


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    """And the others keep their places."""
    good = write(tmp_path / "good.png", 30, 20)
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("not an image", encoding="utf-8")
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:20])
    names = ["good.png", "empty.png", "text.png", "cut.png", "missing.png", ".", "good.png"]
    assert image_sizes([tmp_path / n for n in names]) == [(30, 20), None, None, None, None, None, (30, 20)]


def test_only_headers_are_read(tmp_path: Path) -> None:
    """Of an image whose pixels would be 1.2 GB; and what the host takes for an attack counts as unread."""
    large, huge = tmp_path / "large.png", tmp_path / "huge.png"
    for path, side in ((large, 13_000), (huge, 20_000)):
        Image.new("1", (side, side)).save(path)
    assert image_sizes([large, huge]) == [(13_000, 13_000), None]


@pytest.mark.parametrize("form", ["avif", "webp", "jpeg2000", "png", "tiff", "jpeg", "bmp"])
def test_damaged_files_have_a_size_or_none(form: str, tmp_path: Path) -> None:
    """Whatever a reader raises; one byte after the other."""
    whole = io.BytesIO()
    try:
        Image.fromarray(np.zeros((50, 40, 3), np.uint8)).save(whole, form)
    except (KeyError, OSError):
        pytest.skip(f"Pillow has no {form} here")
    content = whole.getvalue()
    paths = []
    for i in range(0, min(len(content), 600), 3):
        paths.append(tmp_path / f"{i}.{form}")
        paths[-1].write_bytes(content[:i] + bytes([content[i] ^ 0xFF]) + content[i + 1 :])
    found = image_sizes(paths)
    assert len(found) == len(paths)
    assert image_sizes([*paths[:1], *paths[:1]]) == [found[0]] * 2
