"""One object of a label, whatever its format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from yolo_ckpt.data.convert.geometry import Points, Rect, bounds, corners
from yolo_ckpt.data.convert.picture import upright_points
from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.host import SIDES_SWAPPED


@dataclass(frozen=True, kw_only=True)
class Item:
    """One object, in pixels of the picture.

    Attributes:
        name: Its class.
        rings: Outlines (K, 2), one for each part.
        box: The upright box that the label gives, where it gives one.
        only_box: Nothing but `box` is known; `rings` is its four corners.
    """

    name: str
    rings: tuple[Points, ...]
    box: Rect | None = None
    only_box: bool = False


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """The objects of one picture.

    Attributes:
        items: In the order of the label.
        size: (width, height) that the label says the picture has, None where it does not.
        notes: What was left out or changed, counted.
    """

    items: tuple[Item, ...]
    size: tuple[int, int] | None = None
    notes: Counter[str] = field(default_factory=Counter)


def placed(
    annotation: Annotation, size: tuple[int, int], stored: tuple[int, int], orientation: int
) -> tuple[Item, ...]:
    """The objects on the upright picture of `size`, which was `stored` with an EXIF `orientation`.

    A label that gives the stored size, where the upright one differs, was drawn on the stored picture.

    Raises:
        BrokenFileError: The label belongs to a picture of another size.
    """
    if annotation.size is None or annotation.size == size:
        return annotation.items
    if annotation.size == stored and orientation in SIDES_SWAPPED:
        return tuple(_turned(item, orientation, stored) for item in annotation.items)
    width, height = annotation.size
    raise BrokenFileError(f"its label is for {width} x {height} px, the image has {size[0]} x {size[1]} px")


def _turned(item: Item, orientation: int, stored: tuple[int, int]) -> Item:
    rings = tuple(upright_points(ring, orientation, *stored) for ring in item.rings)
    box = None if item.box is None else bounds(upright_points(corners(item.box), orientation, *stored))
    return replace(item, rings=rings, box=box)
