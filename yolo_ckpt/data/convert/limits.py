"""How large and how small an image may be, for the host and for the readers here."""

from __future__ import annotations

from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.host import LEAST_SIDE_PX, MOST_PIXELS

# OpenCV refuses to decode above this (`OPENCV_IO_MAX_IMAGE_PIXELS`); PIL takes over there.
OPENCV_MOST_PIXELS = 1 << 30
OPENCV_MOST_SIDE = 1 << 20
# PIL's own limit is lifted for reading; above this a header is taken for a mistake or an attack.
SANE_PIXELS = 1 << 32
JPEG_MOST_SIDE = 65535


def check_readable(width: int, height: int) -> None:
    """Refuses sizes that no reader here should be asked for.

    Raises:
        BrokenFileError: The header says a size that is not to be believed.
    """
    if width < 1 or height < 1 or width * height > SANE_PIXELS:
        raise BrokenFileError(
            f"its header says {width} x {height} px; up to {SANE_PIXELS / 1e6:,.0f} megapixels are read"
        )


def check_trainable(width: int, height: int) -> None:
    """Refuses what training would drop.

    Raises:
        BrokenFileError: The image is too small, or has to be tiled.
    """
    if min(width, height) < LEAST_SIDE_PX:
        raise BrokenFileError(f"{width} x {height} px: training drops images with a side below {LEAST_SIDE_PX} px")
    if width * height > MOST_PIXELS:
        raise BrokenFileError(
            f"{width} x {height} px: training drops images above {MOST_PIXELS / 1e6:.0f} megapixels; it should be "
            f"tiled: add tile=1024"
        )
