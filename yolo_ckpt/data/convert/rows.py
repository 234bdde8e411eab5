"""Objects to YOLO label rows: clipped to the image, cut to a tile, in the form of the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert import geometry
from yolo_ckpt.data.convert.geometry import Points, Rect
from yolo_ckpt.data.convert.labels.items import Item
from yolo_ckpt.data.convert.request import Task


@dataclass(frozen=True, kw_only=True)
class Whole:
    """One object within its image.

    Attributes:
        name: Its class.
        rings: Outlines, clipped to the image.
        bounds: Around them.
        box: The upright box that the label gave, clipped to the image; `bounds` where it gave none.
        area: Of the outlines.
        only_box: Nothing but a box is known.
        turned: The four corners of a turned box that lies within the image.
    """

    name: str
    rings: tuple[Points, ...]
    bounds: Rect
    box: Rect
    area: float
    only_box: bool
    turned: Points | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a label file: a class name and fractions of the picture."""

    name: str
    values: npt.NDArray[np.float64]


def wholes(items: Sequence[Item], size: tuple[int, int], task: Task, notes: Counter[str]) -> list[Whole]:
    """The objects clipped to an image of `size` (width, height); what has no area there is counted and left out."""
    image = (0.0, 0.0, float(size[0]), float(size[1]))
    found: dict[tuple[object, ...], Whole] = {}
    for item in items:
        whole = _whole(item, image)
        if whole is None:
            notes[f"objects {'outside the image' if _is_outside(item, image) else 'without an area'} left out"] += 1
            continue
        outlines = () if task == "detect" else tuple(ring.tobytes() for ring in whole.rings)
        key = (whole.name, whole.box, *outlines)
        notes["duplicates left out"] += int(key in found)
        notes["objects reached outside the image and were clipped"] += int(_sticks_out(item, image))
        notes["boxes became rectangular outlines"] += int(task == "segment" and whole.only_box)
        notes["boxes became upright rectangles"] += int(task == "obb" and whole.only_box)
        found.setdefault(key, whole)
    return list(found.values())


def _is_outside(item: Item, image: Rect) -> bool:
    x0, y0, x1, y1 = geometry.bounds(np.concatenate(item.rings))
    return x1 <= image[0] or y1 <= image[1] or x0 >= image[2] or y0 >= image[3]


def _sticks_out(item: Item, image: Rect) -> bool:
    x0, y0, x1, y1 = geometry.bounds(np.concatenate(item.rings))
    return x0 < image[0] - 0.5 or y0 < image[1] - 0.5 or x1 > image[2] + 0.5 or y1 > image[3] + 0.5


def _whole(item: Item, image: Rect) -> Whole | None:
    rings = _cut([_with_area(ring) for ring in item.rings], image)
    box = geometry.overlap(item.box, image) if item.box is not None else None
    only_box = item.only_box or not rings
    if not rings and box is not None:
        rings = [geometry.corners(box)]  # the outline is a line or a point, the box is not
    if not rings:
        return None
    around = geometry.bounds(np.concatenate(rings))
    inside = len(item.rings) == 1 and len(item.rings[0]) == 4 and len(rings[0]) == 4
    return Whole(
        name=item.name,
        rings=tuple(rings),
        bounds=around,
        box=box or around,
        area=sum(map(geometry.area, rings)),
        only_box=only_box,
        turned=item.rings[0] if inside and np.array_equal(item.rings[0], rings[0]) else None,
    )


def _with_area(ring: Points) -> Points:
    """The ring, or the hull around it where its loops cancel to nothing (a bow tie)."""
    x0, y0, x1, y1 = geometry.bounds(ring)
    return geometry.hull(ring) if geometry.area(ring) < 1e-3 * (x1 - x0) * (y1 - y0) else ring


def _cut(rings: Sequence[Points], rect: Rect) -> list[Points]:
    cut = [geometry.clipped(ring, rect) for ring in rings]
    return [ring for ring in cut if len(ring) > 2 and geometry.area(ring) > 1e-6]


def cut_row(whole: Whole, tile: Rect, task: Task, min_visible: float, notes: Counter[str]) -> Row | None:
    """The label row of an object on a tile, None where less than `min_visible` of its area is there."""
    x0, y0, x1, y1 = tile
    within = whole.bounds[0] >= x0 and whole.bounds[1] >= y0 and whole.bounds[2] <= x1 and whole.bounds[3] <= y1
    rings = list(whole.rings) if within else _cut(whole.rings, tile)
    if not rings or (not within and sum(map(geometry.area, rings)) < min_visible * whole.area):
        return None
    notes["objects cut by tiles"] += int(not within)
    corner, side = np.array([x0, y0]), np.array([x1 - x0, y1 - y0])
    if task == "detect":
        return Row(name=whole.name, values=_box(whole.box if within else _around(rings, whole, tile), tile))
    points = geometry.joined(rings) if task == "segment" else _turned(rings, whole if within else None, tile, notes)
    values = (points - corner) / side
    return Row(name=whole.name, values=(values.clip(0, 1) if task == "segment" else values).ravel())


def _around(rings: Sequence[Points], whole: Whole, tile: Rect) -> Rect:
    around = geometry.bounds(np.concatenate(rings))
    return geometry.overlap(around, whole.box) or around


def _box(box: Rect, tile: Rect) -> npt.NDArray[np.float64]:
    x0, y0, x1, y1 = box
    width, height = tile[2] - tile[0], tile[3] - tile[1]
    centre = ((x0 + x1) / 2 - tile[0]) / width, ((y0 + y1) / 2 - tile[1]) / height
    return np.array([*centre, (x1 - x0) / width, (y1 - y0) / height]).clip(0, 1)


def _turned(rings: Sequence[Points], whole: Whole | None, tile: Rect, notes: Counter[str]) -> Points:
    """Four corners: those of the label where nothing was cut, else of the smallest rectangle around what is left.

    Such a rectangle may stick out of the tile with its corners. The host drops the whole image where one is larger than
    the image (8.4.190, `data/utils.py: verify_image_label`), so that one becomes upright.
    """
    if whole is not None and whole.turned is not None:
        return whole.turned
    points = np.concatenate(rings)
    corners = geometry.turned_rectangle(points)
    x0, y0, x1, y1 = geometry.bounds(corners)
    middle_inside = tile[0] <= (x0 + x1) / 2 <= tile[2] and tile[1] <= (y0 + y1) / 2 <= tile[3]
    if middle_inside and x1 - x0 <= tile[2] - tile[0] and y1 - y0 <= tile[3] - tile[1]:
        return corners
    notes["turned boxes larger than the picture became upright"] += 1
    return geometry.corners(geometry.bounds(points))
