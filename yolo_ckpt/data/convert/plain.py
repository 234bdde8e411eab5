"""PNG, JPEG and the other image formats that the host reads, read as the host reads them, deeper ones in full depth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from yolo_ckpt.data.convert import limits
from yolo_ckpt.data.convert.picture import Header, Picture, Pixels, upright
from yolo_ckpt.data.convert.pil import opened
from yolo_ckpt.data.convert.pngchunks import extras
from yolo_ckpt.data.convert.problems import BrokenFileError, decoding
from yolo_ckpt.data.convert.window import AS_STORED, Choice, measured
from yolo_ckpt.data.host import SIDES_SWAPPED

_ORIENTATION = 274
_GREY_MODES = frozenset({"1", "L", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"})
_BYTES_A_PIXEL = {"1": 1, "L": 1, "P": 1, "LA": 2, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}
_COPIES = 3  # PIL's own, one in other colours, and the array
_STRIP_ROWS = 1024
_ANIMATED = frozenset({"GIF", "PNG", "WEBP", "AVIF"})
_TEXTS = {"icc_profile": "colour profile", "xmp": "XMP", "comment": "comment", "photoshop": "Photoshop"}


def header(path: Path) -> Header:
    """Size of the upright picture, from the file's header.

    Raises:
        BrokenFileError: It cannot be read.
    """
    with opened(path) as image:
        width, height = image.size
        limits.check_readable(width, height)
        if _extras(path, image)[0] in SIDES_SWAPPED:
            width, height = height, width
        needed = width * height * _BYTES_A_PIXEL.get(image.mode, 4) * _COPIES + path.stat().st_size
        return Header(width=width, height=height, bytes_needed=needed)


def read(path: Path, choice: Choice) -> Picture:
    """The picture in a file, upright, in its depth.

    Raises:
        BrokenFileError: It cannot be read, or is cut off.
    """
    with opened(path) as image:
        width, height = image.size
        limits.check_readable(width, height)
        (orientation, dropped), grey = _extras(path, image), image.mode in _GREY_MODES
        if width * height > limits.OPENCV_MOST_PIXELS or max(image.size) > limits.OPENCV_MOST_SIDE:
            pixels = _with_pil(image, orientation)
        else:
            _check_whole(image)
            decoded = _with_opencv(path, grey)
            pixels = decoded if decoded is not None else _only_pil(path, orientation)
        frames = int(getattr(image, "n_frames", 1)) if image.format in _ANIMATED else 1
    notes: Counter[str] = Counter({"further frames of animated images left out": frames - 1})
    window = AS_STORED.get(pixels.dtype.name) or measured(pixels, choice, notes)
    return Picture(pixels=pixels, window=window, orientation=orientation, notes=+notes, dropped=dropped)


def decode_upright(path: Path) -> Pixels:
    """What OpenCV makes of a file, (H, W, C) in RGB order: for TIFF kinds that only it converts to colours.

    Raises:
        BrokenFileError: It cannot be read.
    """
    pixels = _with_opencv(path, grey=False)
    if pixels is None:
        raise BrokenFileError("the image cannot be decoded: it is damaged, or of a kind that OpenCV does not know")
    return pixels


def _extras(path: Path, image: Image.Image) -> tuple[int, Counter[str]]:
    """The EXIF orientation, and the kinds of what the file says besides its pixels."""
    if image.format == "PNG":
        return extras(path)
    with decoding("the EXIF header"):
        exif = image.getexif()
    found = Counter({name: 1 for key, name in _TEXTS.items() if key in image.info})
    found["EXIF"] = int(len(exif) > 0)
    return exif.get(_ORIENTATION, 1) if exif.get(_ORIENTATION, 1) in range(1, 9) else 1, +found


def _check_whole(image: Image.Image) -> None:
    """Has PIL read to the end: OpenCV may fill up what is missing of a file with grey. PNG has checksums for that."""
    with decoding("the image"):
        if image.format == "PNG":
            image.verify()
        else:
            image.load()


def _with_opencv(path: Path, grey: bool) -> Pixels | None:
    """Decoded with the flags that the host uses, but in full depth; grey ones keep a single channel. None where OpenCV
    does not know the kind."""
    flags = (cv2.IMREAD_ANYCOLOR if grey else cv2.IMREAD_COLOR) | cv2.IMREAD_ANYDEPTH
    with decoding("the image"):
        pixels: Pixels | None = cv2.imdecode(np.fromfile(path, np.uint8), flags)
    if pixels is None:
        return None
    return pixels[..., None] if pixels.ndim == 2 else pixels[..., ::-1]


def _only_pil(path: Path, orientation: int) -> Pixels:
    """AVIF and HEIC in some versions of OpenCV; the host takes PIL for them too."""
    with opened(path) as image:
        return _with_pil(image, orientation)


def _with_pil(image: Image.Image, orientation: int) -> Pixels:
    """For sizes that OpenCV refuses. PIL has no 16-bit colours: it would cut them to 8."""
    if image.format == "PNG" and image.mode in ("RGB", "RGBA") and _png_depth(image) == 16:
        raise BrokenFileError(
            f"{image.width} x {image.height} px of 16-bit colours cannot be read from PNG; save it as TIFF"
        )
    height = image.height
    with decoding("the image"):
        pixels = np.empty((height, *_strip(image, 0, 1).shape[1:]), _strip(image, 0, 1).dtype)
        for y in range(0, height, _STRIP_ROWS):  # PIL makes several copies on the way to an array
            pixels[y : y + _STRIP_ROWS] = _strip(image, y, min(y + _STRIP_ROWS, height))
    pixels = upright(pixels, orientation)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _strip(image: Image.Image, first: int, end: int) -> Pixels:
    part = image.crop((0, first, image.width, end))
    if part.mode not in _GREY_MODES:
        part = part.convert("L" if part.mode == "LA" else "RGB")
    return np.asarray(part)


def _png_depth(image: Image.Image) -> int:
    with Path(image.filename).open("rb") as file:  # type: ignore[attr-defined]  # every image opened from a file has one
        return file.read(25)[24]
