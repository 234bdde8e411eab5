"""What a file is, by its first bytes rather than by its name."""

from __future__ import annotations

from pathlib import Path

IMAGE_SUFFIXES = frozenset(
    (".avif", ".bmp", ".gif", ".heic", ".heif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".mpo", ".pbm",
     ".pgm", ".pjpeg", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)  # fmt: skip
DICOM_SUFFIXES = frozenset({".dcm", ".dicom", ".ima"})
_FIRST_BYTES = (
    (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"BM", "image"), (b"GIF8", "image"),
    (b"\x00\x00\x00\x0cjP  ", "image"), (b"\xff\x4f\xff\x51", "image"), (b"II*\x00", "tiff"), (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"), (b"MM\x00+", "tiff"),
)  # fmt: skip


def first_bytes(path: Path) -> bytes:
    """What the kind of a file is told by; empty for an empty file.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return file.read(132)


def kind_of(head: bytes) -> str:
    """`image`, `tiff` or `dicom` by a file's first bytes, empty for anything else."""
    if head[128:132] == b"DICM":
        return "dicom"
    for magic, kind in _FIRST_BYTES:
        if head.startswith(magic):
            return kind
    if (head[:4] == b"RIFF" and head[8:12] == b"WEBP") or head[4:8] == b"ftyp":
        return "image"
    return "image" if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace() else ""
