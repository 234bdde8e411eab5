"""Opening images with PIL, without its pixel limit and without what the host puts into its place."""

from __future__ import annotations

import importlib.util
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from yolo_ckpt.data.convert.problems import BrokenFileError, decoding
from yolo_ckpt.data.host import HEIF_BRANDS


@contextmanager
def opened(path: Path) -> Iterator[Image.Image]:
    """PIL's view of a file. Its pixel limit is lifted meanwhile: callers check sizes with `limits.check_readable`.

    Raises:
        BrokenFileError: No plugin knows the file.
    """
    lifted, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings(), path.open("rb") as file:
            warnings.simplefilter("ignore")
            with decoding("the image"):
                image = _identified(file, str(path))
            with image:
                yield image
    except OSError as error:
        raise BrokenFileError(f"the image cannot be read: {error.strerror or error}") from error
    finally:
        Image.MAX_IMAGE_PIXELS = lifted


def _identified(file: IO[bytes], name: str) -> Image.Image:
    """As `Image.open` does it: importing ultralytics replaces that by a function that runs pip on what it does not know
    (8.4.190, `utils/patches.py: image_open`)."""
    Image.init()
    head = file.read(16)
    if head[8:12] in HEIF_BRANDS:
        _register_heif()
    for kind in Image.ID:
        factory, accept = Image.OPEN[kind]
        if accept is None or accept(head) is True:
            try:
                file.seek(0)
                return factory(file, name)
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue  # another plugin may know it; these are what `Image.open` takes for "not mine"
    raise BrokenFileError("the image cannot be read: it is damaged, or of a kind that PIL does not know")


def _register_heif() -> None:
    if importlib.util.find_spec("pi_heif") is None:
        raise BrokenFileError("it is HEIC, which needs a package: pip install pi-heif")
    from pi_heif import register_heif_opener

    register_heif_opener()
