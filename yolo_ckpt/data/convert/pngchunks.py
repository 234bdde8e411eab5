"""What a PNG says besides its pixels, read from chunk to chunk: PIL would unpack the whole image to find its EXIF."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

from PIL import Image

from yolo_ckpt.data.convert.problems import BrokenFileError

_TEXTS = {
    b"tEXt": "PNG text", b"zTXt": "PNG text", b"iTXt": "PNG text", b"eXIf": "EXIF", b"tIME": "date",
    b"iCCP": "colour profile",
}  # fmt: skip


def extras(path: Path) -> tuple[int, Counter[str]]:
    """The EXIF orientation, and the kinds of chunks that say something else than pixels.

    Raises:
        BrokenFileError: The file ends before its last chunk.
    """
    orientation, found = 1, Counter[str]()
    with path.open("rb") as file:
        file.seek(8)
        while head := file.read(8):
            length, kind = struct.unpack(">I4s", head) if len(head) == 8 else (0, b"")
            if kind == b"IEND":
                return orientation, found
            if kind in _TEXTS:
                found[_TEXTS[kind]] = 1
            if kind == b"eXIf":
                orientation = _orientation(file.read(length))
                length = 0
            file.seek(length + 4, 1)
    raise BrokenFileError("the PNG is cut off")


def _orientation(data: bytes) -> int:
    exif = Image.Exif()
    try:
        exif.load(data)
    except (SyntaxError, struct.error, ValueError):  # a damaged header turns nothing, as with OpenCV
        return 1
    return exif.get(274, 1) if exif.get(274, 1) in range(1, 9) else 1
