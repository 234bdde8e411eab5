"""What an image file says of itself, read as the host's scan reads it, without decoding a pixel."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from PIL import ExifTags, Image

from yolo_ckpt.data.check.endings import ends_early, is_whole
from yolo_ckpt.data.host import HEIF_BRANDS, SIDES_SWAPPED
from yolo_ckpt.units import many

_ORIENTATION = int(ExifTags.Base.Orientation)
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_TIFF_KINDS = {1: "uint", 2: "int", 3: "float", 5: "int", 6: "float"}
_COMPRESSIONS = (1, 5, 7, 8, 32773, 32946)  # of TIFF: those that OpenCV's wheels read
_UNKNOWN = (SyntaxError, IndexError, TypeError, struct.error)  # what PIL takes for "not this format"


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A frozen record of one image file.

    Attributes:
        file_bytes: Size of the file.
        format: PIL's name of the format; empty where it cannot be read.
        width: In pixels, upright.
        height: In pixels, upright.
        bits: Of one sample.
        channels: Samples of one pixel, those of a palette's colours.
        sample: `uint`, `int` or `float`.
        mode: PIL's name of the mode.
        orientation: The EXIF tag; 0 without.
        pages: Of the size of the first one (TIFF).
        whole: Nothing is missing at the end, as far as the file says.
        unusual: A variant that OpenCV may not read, or turn otherwise than PIL.
        extra: Bands besides colour and transparency (TIFF).
        error: Why it cannot be read.
        identity: Device and inode: one file by two names has one.
    """

    file_bytes: int = 0
    format: str = ""
    width: int = 0
    height: int = 0
    bits: int = 8
    channels: int = 3
    sample: str = "uint"
    mode: str = ""
    orientation: int = 0
    pages: int = 1
    whole: bool = True
    unusual: bool = False
    extra: int = 0
    error: str = ""
    identity: tuple[int, int] = (0, 0)

    @property
    def kind(self) -> str:
        """In words, for example `8-bit PNG, 3 channels`."""
        sample = "" if self.sample == "uint" else f" {self.sample}"
        return f"{self.bits}-bit{sample} {self.format}, {many(self.channels, 'channel')}"

    @property
    def pixels(self) -> int:
        """Width times height."""
        return self.width * self.height


def read_header(path: str) -> Header:
    """The header of one file. What is wrong with it is in the record: nothing is raised."""
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            known = {"file_bytes": status.st_size, "identity": (status.st_dev, status.st_ino)}
            try:
                return _described(file, path, known) if status.st_size else Header(error="zero bytes", **known)  # type: ignore[arg-type]
            except Exception as error:  # PIL's readers may raise anything, and whatever it is, the host drops the image
                whole = not ends_early(file, status.st_size)
                return Header(error=str(error) or type(error).__name__, whole=whole, **known)  # type: ignore[arg-type]
    except OSError as error:
        return Header(error=(error.strerror or type(error).__name__).lower())


def opened(file: IO[bytes], name: str) -> Any:
    """The image in `file`, opened by PIL's readers in PIL's order. Not by `Image.open`: that refuses large images,
    and where the host is imported it tries to install a package for what it does not know.

    Raises:
        ValueError: No reader knows it.
        Exception: Whatever a reader says.
    """
    prefix = file.read(16)
    tried: set[str] = set()
    for load in (Image.preinit, Image.init, _heif):
        load()
        for name_of_format in [f for f in Image.ID if f not in tried]:
            tried.add(name_of_format)
            factory, accept = Image.OPEN[name_of_format]
            taken = not accept or accept(prefix)
            if not taken or isinstance(taken, str):
                continue
            try:
                file.seek(0)
                return factory(file, name)
            except _UNKNOWN:
                continue
    raise ValueError(f"no reader of images knows it{_what_else(file)}")


def _what_else(file: IO[bytes]) -> str:
    """What a file may be that is no image."""
    file.seek(0)
    head = file.read(132)
    if head[128:] == b"DICM":
        return ": it is a DICOM file"
    if head[4:8] == b"ftyp" and head[8:12] in HEIF_BRANDS:
        return ": it is HEIC, for which the host needs the package pi-heif"
    printable = head.isascii() and all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    return ": it is text" if printable else ""


def _heif() -> None:
    """Let PIL read HEIC where the package that the host uses for it is there."""
    try:
        from pi_heif import register_heif_opener
    except ImportError:
        return
    register_heif_opener()


def _described(file: IO[bytes], path: str, known: dict[str, Any]) -> Header:
    image = opened(file, path)
    orientation = _orientation(image)
    width, height = reversed(_stored_size(image)) if orientation in SIDES_SWAPPED else _stored_size(image)
    bits, channels, sample = _samples(image, file)
    pages = _pages(image) if image.format == "TIFF" else 1
    return Header(
        format=image.format, width=width, height=height, bits=bits, channels=channels, sample=sample,
        mode=image.mode, orientation=orientation, pages=pages, whole=is_whole(image, file, known["file_bytes"]),
        unusual=_is_unusual(image, orientation), extra=_extra(image), **known,
    )  # fmt: skip


def _stored_size(image: Any) -> tuple[int, int]:
    """Width and height as the pixels lie in the file. Of a TIFF, newer versions of PIL say the upright ones."""
    if image.format == "TIFF":
        return int(image.tag_v2[256]), int(image.tag_v2[257])
    return int(image.size[0]), int(image.size[1])


def _extra(image: Any) -> int:
    """Bands of a TIFF that are neither colour nor transparency (tags 262 and 338)."""
    if image.format != "TIFF":
        return 0
    tags = image.tag_v2
    colours = {2: 3, 3: 1, 5: 4, 6: 3, 8: 3}.get(tags.get(262, 1), 1)
    return int(tags.get(277) or 1) - colours - sum(kind in (1, 2) for kind in tags.get(338, ()))


def _is_unusual(image: Any, orientation: int) -> bool:
    """Compressions that OpenCV's wheels lack; formats in which who turns the picture varies by version."""
    if image.format == "TIFF" and image.tag_v2.get(259, 1) not in _COMPRESSIONS:
        return True
    return orientation in SIDES_SWAPPED and image.format in ("TIFF", "WEBP")


def _orientation(image: Any) -> int:
    """The EXIF tag, which TIFF keeps among its own."""
    if image.format == "TIFF":
        return int(image.tag_v2.get(_ORIENTATION) or 0) & 0xFFFF if _ORIENTATION in image.tag_v2 else 0
    if "exif" not in image.info:  # and do not ask: a PNG would be decoded in search of it
        return 0
    try:
        return int(image.getexif().get(_ORIENTATION) or 0)
    except Exception:  # broken EXIF data: the host goes on without
        return 0


def _samples(image: Any, file: IO[bytes]) -> tuple[int, int, str]:
    """Bits of a sample, samples of a pixel and their kind, from the file: PIL's modes hide 16 bits of colour images."""
    if image.format == "PNG":
        file.seek(24)
        bits, colour = file.read(2)
        return (8 if colour == 3 else bits), _PNG_CHANNELS.get(colour, 3), "uint"
    if image.format == "TIFF":
        tags = image.tag_v2
        kinds = tags.get(339) or (1,)
        return max(tags.get(258) or (1,)), int(tags.get(277) or 1), _TIFF_KINDS.get(kinds[0], "uint")
    if image.format == "JPEG2000":
        return _jpeg2000(file)
    if image.mode in ("1", "P"):
        return (1, 1, "uint") if image.mode == "1" else (8, 3, "uint")
    if image.mode == "F":
        return 32, 1, "float"
    deep = 32 if image.mode == "I" else 16 if image.mode.startswith("I;16") else 8
    return deep, len(image.getbands()), "uint"


def _jpeg2000(file: IO[bytes]) -> tuple[int, int, str]:
    """The SIZ marker, the first of a codestream (ISO 15444-1, A.5.1)."""
    file.seek(0)
    head = file.read(1 << 16)
    at = head.find(b"\xff\x4f\xff\x51")
    if at < 0 or at + 43 > len(head):
        return 8, 3, "uint"
    channels, depth = struct.unpack(">HB", head[at + 40 : at + 43])
    return (depth & 0x7F) + 1, channels, "int" if depth & 0x80 else "uint"


def _pages(image: Any) -> int:
    """Pages of the size of the first: smaller ones are overviews of it."""
    size = image.size
    try:
        image.seek(1)
    except EOFError:
        return 1
    alike = image.size == size
    pages = int(image.n_frames) if alike else 1
    image.seek(0)
    return pages
