"""Numbers about a data set that decide at which size it is trained: objects in pixels, objects in an image, shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yolo_ckpt.data.check.labelfindings import clipped_sides
from yolo_ckpt.data.check.labels import Floats
from yolo_ckpt.data.check.scan import Looked
from yolo_ckpt.integration import compat

MODEL_STRIDE = 32  # of the coarsest feature map: sides of training images are multiples of it
CELL_PX = 8  # stride of the finest feature map of the family's heads
_EDGES_PX = tuple(2 ** (k / 2) for k in range(27))  # 1 to 8192


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The images of one split.

    Attributes:
        listed: Names that the host lists.
        used: Images that it trains on.
        background: Of those, without objects.
        objects: Rows that it keeps.
        mean_objects: Of an image.
        most_objects: Of an image.
        kinds: How many there are of each kind of file, such as `8-bit PNG, 3 channels`.
        least_side: The shortest longer side, in pixels.
        largest_side: The longest side, in pixels.
        sizes: How many different sizes there are.
    """

    listed: int
    used: int
    background: int
    objects: int
    mean_objects: float
    most_objects: int
    kinds: dict[str, int]
    least_side: int
    largest_side: int
    sizes: int


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the objects at one size of the images: the square root of width times height, in pixels.

    Attributes:
        imgsz: The longer side of every image.
        objects: How many there are.
        median_px: Half are smaller.
        tenth_px: A tenth is smaller.
        below_cell: Smaller than a cell of the finest feature map.
        thinner_than_cell: With a side that is shorter than such a cell.
        edges_px: Borders of the histogram.
        counts: Its bars; what lies beyond the borders is in the outer ones.
    """

    imgsz: int
    objects: int
    median_px: float
    tenth_px: float
    below_cell: int
    thinner_than_cell: int
    edges_px: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Rect:
    """What `rect=True` would save, by the host's batch shapes.

    Attributes:
        imgsz: The longer side.
        batch: Images in a step.
        square_pixels: Of an epoch of squares.
        rect_pixels: Of an epoch of batches with their own shape.
        image_pixels: Of the images alone, without padding.
        saved_share: Of the squares' pixels.
        largest: Height and width of the largest batch.
    """

    imgsz: int
    batch: int
    square_pixels: int
    rect_pixels: int
    image_pixels: int
    saved_share: float
    largest: tuple[int, int]


def pictures(listed: Sequence[Looked], used: Sequence[Looked]) -> Pictures:
    """The images of one split, of which `used` are trained on."""
    objects = [len(one.labels.boxes) for one in used]
    longer = [max(one.header.width, one.header.height) for one in used]
    return Pictures(
        listed=len(listed), used=len(used), background=objects.count(0), objects=sum(objects),
        mean_objects=sum(objects) / max(len(used), 1), most_objects=max(objects, default=0),
        kinds=dict(Counter(one.header.kind for one in used).most_common()),
        least_side=min(longer, default=0), largest_side=max(longer, default=0),
        sizes=len({(one.header.width, one.header.height) for one in used}),
    )  # fmt: skip


def native_imgsz(used: Sequence[Looked]) -> int:
    """The largest side of all images, up to a multiple of the stride; 640 where there are none."""
    largest = max((max(one.header.width, one.header.height) for one in used), default=compat.DEFAULT_IMGSZ)
    return -(-largest // MODEL_STRIDE) * MODEL_STRIDE


def object_sides(used: Sequence[Looked]) -> Floats:
    """Sides of all objects as shares of their image's longer side (N, 2)."""
    parts = [np.zeros((0, 2), np.float32)]
    for one in used:
        if len(one.labels.boxes):
            width, height = one.header.width, one.header.height
            rotated = one.labels.sides
            sides = clipped_sides(one.labels, width, height) if rotated is None else rotated
            parts.append((sides / max(width, height)).astype(np.float32))
    return np.concatenate(parts)


def sizes_at(sides: Floats, imgsz: int) -> Sizes:
    """Sizes of objects with these sides (shares of the longer side) at `imgsz`."""
    pixels = sides * imgsz
    size = np.sqrt(pixels.prod(1))
    tenth, median = np.quantile(size, (0.1, 0.5)) if len(size) else (0.0, 0.0)
    counts, _ = np.histogram(np.clip(size, _EDGES_PX[0], _EDGES_PX[-1]), _EDGES_PX)
    return Sizes(
        imgsz=imgsz, objects=len(size), median_px=round(float(median), 2), tenth_px=round(float(tenth), 2),
        below_cell=int((size < CELL_PX).sum()), thinner_than_cell=int((pixels < CELL_PX).any(1).sum()),
        edges_px=tuple(round(edge, 2) for edge in _EDGES_PX), counts=tuple(counts.tolist()),
    )  # fmt: skip


def rect_at(used: Sequence[Looked], imgsz: int, batch: int) -> Rect | None:
    """What `rect=True` would save in training on these images; None where there are none."""
    if not used:
        return None
    shapes = [(one.header.height, one.header.width) for one in used]
    batches = compat.rect_shapes(shapes, imgsz, batch, MODEL_STRIDE)
    counts = [min(batch, len(used) - i * batch) for i in range(len(batches))]
    squares = len(used) * imgsz * imgsz
    own = sum(count * h * w for count, (h, w) in zip(counts, batches, strict=True))
    images = sum(min(h, w) / max(h, w) for h, w in shapes) * imgsz * imgsz
    return Rect(
        imgsz=imgsz, batch=batch, square_pixels=squares, rect_pixels=own, image_pixels=round(images),
        saved_share=round(1 - own / squares, 4), largest=max(batches, key=lambda shape: shape[0] * shape[1]),
    )  # fmt: skip
