"""A small healthy data set, and files that are bad in one way each."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

SIZE = (80, 64)  # width, height
ZSTD = 50000
ROW = "0 0.5 0.5 0.25 0.25\n"


def noise(channels: int = 3, top: int = 256, dtype: Any = np.uint8, size: tuple[int, int] = SIZE, seed: int = 0) -> Any:
    """Random pixels below `top`."""
    shape = (size[1], size[0], channels) if channels > 1 else (size[1], size[0])
    return np.random.default_rng(seed).integers(0, top, shape).astype(dtype)


def encoded(form: str, pixels: Any = None, mode: str = "", **options: Any) -> bytes:
    """An image file of that format."""
    content = io.BytesIO()
    image = Image.fromarray(noise() if pixels is None else pixels)
    (image.convert(mode) if mode else image).save(content, form, **options)
    return content.getvalue()


def tiff(pixels: Any, **options: Any) -> bytes:
    """A TIFF file."""
    if "compression" in options:
        pytest.importorskip("imagecodecs")
    content = io.BytesIO()
    tifffile.imwrite(content, pixels, **options)
    return content.getvalue()


def with_codec(content: bytes, codec: int) -> bytes:
    """A TIFF that says of its pixels that they are compressed so (tag 259)."""
    plain, other = (struct.pack("<HHIHH", 259, 3, 1, value, 0) for value in (1, codec))
    assert content.count(plain) == 1
    return content.replace(plain, other)


def heic() -> bytes:
    """What a HEIC file begins with."""
    return struct.pack(">I4s4sI", 16, b"ftyp", b"heic", 0) + bytes(200)


def png16(pixels: Any) -> bytes:
    """A 16-bit PNG, grey or colour."""
    import cv2

    return bytes(cv2.imencode(".png", pixels)[1])


def turned(orientation: int) -> bytes:
    """A JPEG with an EXIF orientation."""
    exif = Image.Exif()
    exif[274] = orientation
    return encoded("JPEG", exif=exif)


def huge_png(width: int, height: int) -> bytes:
    """A 1-bit PNG of that size, of which only the header says so."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I4s", len(content), name) + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def dicom() -> bytes:
    """What a DICOM file begins with."""
    return b"\0" * 128 + b"DICM" + b"\0" * 200


IMAGES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "healthy JPEG": ("a.jpg", lambda: encoded("JPEG")),
    "healthy BMP": ("a.bmp", lambda: encoded("BMP")),
    "healthy WebP": ("a.webp", lambda: encoded("WEBP")),
    "healthy JPEG 2000": ("a.jp2", lambda: encoded("JPEG2000")),
    "healthy TIFF": ("a.tif", lambda: encoded("TIFF")),
    "healthy tiled TIFF": ("a.tif", lambda: tiff(noise(size=(128, 128)), tile=(64, 64), photometric="rgb")),
    "PNG with bytes after its end": ("a.png", lambda: encoded("PNG") + b"\0" * 40),
    "JPEG by the name of a PNG": ("a.png", lambda: encoded("JPEG")),
    "zero bytes": ("a.png", lambda: b""),
    "text by the name of a PNG": ("a.png", lambda: b"this is not a picture\n"),
    "JPEG cut off": ("a.jpg", lambda: encoded("JPEG")[:-200]),
    "JPEG with bytes after its end": ("a.jpg", lambda: encoded("JPEG") + b"\0" * 100),
    "PNG cut off": ("a.png", lambda: encoded("PNG")[:3000]),
    "PNG without its last byte": ("a.png", lambda: encoded("PNG")[:-1]),
    "TIFF cut off": ("a.tif", lambda: encoded("TIFF")[:-500]),
    "tiled TIFF cut off": ("a.tif", lambda: tiff(noise(size=(128, 128)), tile=(64, 64), photometric="rgb")[:-9000]),
    "BMP cut off": ("a.bmp", lambda: encoded("BMP")[:-500]),
    "WebP cut off": ("a.webp", lambda: encoded("WEBP")[:-500]),
    "JPEG 2000 cut off": ("a.jp2", lambda: encoded("JPEG2000")[:-500]),
    "GIF by the name of a PNG": ("a.png", lambda: encoded("GIF")),
    "DICOM by the name of a PNG": ("a.png", dicom),
    "HEIC": ("a.heic", heic),
    "CMYK": ("a.jpg", lambda: encoded("JPEG", mode="CMYK")),
    "palette": ("a.png", lambda: encoded("PNG", mode="P")),
    "1 bit": ("a.png", lambda: encoded("PNG", mode="1")),
    "1-bit PNG of 33000 x 33000": ("a.png", lambda: huge_png(33000, 33000)),
    "9 px": ("a.png", lambda: encoded("PNG", noise(size=(40, 9)))),
    "16 bits with values 0 to 2047": ("a.png", lambda: png16(noise(1, 2048, np.uint16))),
    "16-bit colours with values 0 to 2047": ("a.png", lambda: png16(noise(3, 2048, np.uint16))),
    "16-bit TIFF with values 0 to 2047": ("a.tif", lambda: tiff(noise(1, 2048, np.uint16))),
    "16 bits over the full range": ("a.png", lambda: png16(noise(1, 65536, np.uint16))),
    "signed 16 bits": ("a.tif", lambda: tiff(noise(1, 2048, np.int16))),
    "32 bits": ("a.tif", lambda: tiff(noise(1, 2048, np.uint32))),
    "float TIFF with NaN": ("a.tif", lambda: tiff(np.full((64, 80), np.nan, np.float32))),
    "float colours": ("a.tif", lambda: tiff(np.ones((64, 80, 3), np.float32), photometric="rgb")),
    "eight bands": ("a.tif", lambda: tiff(noise(8), photometric="minisblack", planarconfig="contig")),
    "two bands": ("a.tif", lambda: tiff(noise(2), photometric="minisblack", planarconfig="contig")),
    "five pages": ("a.tif", lambda: tiff(np.stack([noise(1, seed=i) for i in range(5)]), photometric="minisblack")),
    "TIFF with a codec that OpenCV lacks": ("a.tif", lambda: with_codec(tiff(noise(), photometric="rgb"), ZSTD)),
    "EXIF orientation 6": ("a.jpg", lambda: turned(6)),
    "EXIF orientation 65535": ("a.jpg", lambda: turned(65535)),
}


def make_set(root: Path, names: str = "[a, b]", extra: str = "") -> Path:
    """Two training images and one for validation, healthy; the path of the YAML."""
    for split, count in (("train", 2), ("val", 1)):
        for i in range(count):
            add(root, f"{split}/{i}.png", encoded("PNG", noise(seed=hash_of(split) + i)), ROW)
    return write_yaml(root, names=names, extra=extra)


def hash_of(split: str) -> int:
    """Another seed for each split."""
    return 100 + len(split)


def write_yaml(
    root: Path, *, train: str = "images/train", val: str = "images/val", names: str = "[a, b]", extra: str = ""
) -> Path:
    """The YAML of a data set in `root`."""
    yaml = root / "data.yaml"
    yaml.write_text(f"path: {root}\ntrain: {train}\nval: {val}\nnames: {names}\n{extra}", encoding="utf-8")
    return yaml


def add(root: Path, name: str, content: bytes, rows: str | bytes | None = ROW) -> Path:
    """An image at images/`name` with its label file (none for None); the path of the image."""
    image = root / "images" / name
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(content)
    if rows is not None:
        label = (root / "labels" / name).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        label.write_bytes(rows.encode() if isinstance(rows, str) else rows)
    return image
