"""Whether a file goes on to its end, without decoding it: a header alone does not show that the rest is missing.

Each format says in some way how long it is: JPEG and JPEG 2000 have an end marker, PNG a last chunk, TIFF the places
and lengths of its strips or tiles, the others their length. What looks cut off here is decoded by the host's own reader
before anything is said about it, so a wrong alarm costs time and no more.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import IO, Any

_IEND = b"\0\0\0\0IEND\xae\x42\x60\x82"
_EOI = b"\xff\xd9"


def is_whole(image: Any, file: IO[bytes], size_bytes: int) -> bool:
    """False where the opened `image` of that many bytes seems to miss its end."""
    test = _TESTS.get(image.format)
    return test is None or test(image, file, size_bytes)


def ends_early(file: IO[bytes], size_bytes: int) -> bool:
    """True for a file that PIL does not open because it is cut off: WebP and AVIF are decoded at once."""
    file.seek(0)
    head = file.read(12)
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return not _webp(None, file, size_bytes)
    return head[4:8] == b"ftyp" and not _boxes(None, file, size_bytes)


def _tail(file: IO[bytes], count: int) -> bytes:
    file.seek(0, os.SEEK_END)
    file.seek(max(file.tell() - count, 0))
    return file.read(count)


def _jpeg(_: Any, file: IO[bytes], __: int) -> bool:
    """The host's own test (`check_image`): the end marker has to be the last thing in the file."""
    return _tail(file, 2) == _EOI


def _png(_: Any, file: IO[bytes], size_bytes: int) -> bool:
    """The last chunk is whole; other bytes may follow it."""
    if _tail(file, len(_IEND)) == _IEND:
        return True
    at = 8
    while at + 12 <= size_bytes:
        file.seek(at)
        length, name = struct.unpack(">I4s", file.read(8))
        at += 12 + length
        if name == b"IEND":
            return bool(at <= size_bytes)
    return False


def _tiff(image: Any, _: IO[bytes], size_bytes: int) -> bool:
    """Every strip or tile of the first page ends inside the file (tags 273 and 279, or 324 and 325)."""
    tags = image.tag_v2
    for places, lengths in ((273, 279), (324, 325)):
        if places in tags and lengths in tags:
            pairs = zip(_numbers(tags[places]), _numbers(tags[lengths]), strict=False)
            return all(place + length <= size_bytes for place, length in pairs)
    return False


def _numbers(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _bmp(image: Any, file: IO[bytes], size_bytes: int) -> bool:
    """As many rows as the header says; of a compressed one, the length that it says."""
    file.seek(0)
    head = file.read(34)
    (declared, start), (bits, compression) = struct.unpack("<2xI4xI", head[:14]), struct.unpack("<HI", head[28:34])
    width, height = image.size
    rows = (width * bits + 31) // 32 * 4 * height
    return bool((start + rows if compression in (0, 3) else declared) <= size_bytes)


def _webp(_: Any, file: IO[bytes], size_bytes: int) -> bool:
    file.seek(4)
    return bool(struct.unpack("<I", file.read(4))[0] + 8 <= size_bytes)


def _boxes(_: Any, file: IO[bytes], size_bytes: int) -> bool:
    """The boxes of an ISO base media file (AVIF, HEIF) end inside it."""
    at = 0
    while at + 8 <= size_bytes:
        file.seek(at)
        length = struct.unpack(">I", file.read(8)[:4])[0]
        if length == 0:
            return True  # to the end of the file
        if length == 1 and at + 16 > size_bytes:
            return False
        if length == 1:
            length = struct.unpack(">Q", file.read(8))[0]
        at += max(length, 8)
    return at == size_bytes


def _jpeg2000(_: Any, file: IO[bytes], __: int) -> bool:
    return _tail(file, 2) == _EOI


_TESTS: dict[str | None, Callable[[Any, IO[bytes], int], bool]] = {
    "JPEG": _jpeg, "MPO": _jpeg, "PNG": _png, "TIFF": _tiff, "BMP": _bmp, "WEBP": _webp,
    "AVIF": _boxes, "HEIF": _boxes, "JPEG2000": _jpeg2000,
}  # fmt: skip
