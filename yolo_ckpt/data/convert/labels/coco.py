"""COCO JSON: boxes, polygons and run lengths."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolo_ckpt.data.convert.geometry import Points, Rect, corners
from yolo_ckpt.data.convert.labels.items import Annotation, Item
from yolo_ckpt.data.convert.labels.rle import decoded
from yolo_ckpt.data.convert.outlines import outline
from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One image of a COCO file, with its annotations as they stand there.

    Attributes:
        file_name: As in the file.
        source: The file's name, which may name a split.
        size: (width, height) it gives, None where it does not.
        annotations: Those of this image.
        names: Class names by category id.
    """

    file_name: str
    source: str
    size: tuple[int, int] | None
    annotations: Sequence[Mapping[str, Any]]
    names: Mapping[int, str]


def is_coco(document: object) -> bool:
    """Whether a JSON document has the parts of a COCO data set."""
    return isinstance(document, dict) and all(isinstance(document.get(k), list) for k in ("images", "categories"))


def entries(path: Path) -> tuple[list[Entry], list[str], int]:
    """The images of a COCO file, the class names in the order of their ids, and how many annotations are of none of
    the images.

    Raises:
        SettingsError: It is no COCO file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as JSON ({error}); give another labels=") from error
    if not is_coco(document):
        raise SettingsError(f"{path} is no COCO file: it has no images and categories; give another labels=")
    try:
        names = {int(c["id"]): str(c["name"]) for c in sorted(document["categories"], key=lambda c: int(c["id"]))}
        of_image = defaultdict(list)
        for annotation in document.get("annotations", []):
            of_image[annotation["image_id"]].append(annotation)
        found = [_entry(image, path, of_image.get(image["id"], []), names) for image in document["images"]]
        stray = sum(len(of_image[i]) for i in of_image.keys() - {image["id"] for image in document["images"]})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"{path} is no whole COCO file: {type(error).__name__} {error}; give another") from error
    return found, list(dict.fromkeys(names.values())), stray


def _entry(image: Mapping[str, Any], path: Path, annotations: list[Any], names: Mapping[int, str]) -> Entry:
    size = (int(image.get("width") or 0), int(image.get("height") or 0))
    return Entry(
        file_name=str(image["file_name"]), source=path.stem, size=size if all(size) else None,
        annotations=annotations, names=names,
    )  # fmt: skip


def annotation(entry: Entry, size: tuple[int, int]) -> Annotation:
    """The objects of one image, which has `size` (width, height).

    Raises:
        BrokenFileError: An annotation cannot be understood.
    """
    notes: Counter[str] = Counter()
    items = []
    for given in entry.annotations:
        if given.get("iscrowd"):
            notes["crowd regions left out"] += 1
            continue
        try:
            item = _item(given, entry, entry.size or size, notes)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise BrokenFileError(f"its label has an annotation that is not COCO: {type(error).__name__}") from error
        if item is None:
            notes["objects without an area left out"] += 1
        else:
            items.append(item)
    return Annotation(items=tuple(items), size=entry.size, notes=notes)


def _item(given: Mapping[str, Any], entry: Entry, size: tuple[int, int], notes: Counter[str]) -> Item | None:
    name = entry.names.get(int(given["category_id"]))
    if name is None:
        raise BrokenFileError(f"its label has category_id {given['category_id']}, which categories do not name")
    box = _box(given.get("bbox"))
    rings = _rings(given.get("segmentation"), size, notes)
    if rings:
        return Item(name=name, rings=rings, box=box)
    return None if box is None else Item(name=name, rings=(corners(box),), box=box, only_box=True)


def _box(given: Any) -> Rect | None:
    if not given:
        return None
    x, y, width, height = (float(number) for number in given)
    return (x, y, x + width, y + height) if width > 0 and height > 0 else None


def _rings(given: Any, size: tuple[int, int], notes: Counter[str]) -> tuple[Points, ...]:
    if isinstance(given, dict):
        height, width = (int(side) for side in given["size"])
        if (width, height) != size:
            raise BrokenFileError(
                f"its label has a mask of {width} x {height} px for an image of {size[0]} x {size[1]}"
            )
        found = outline(decoded(given["counts"], width, height))
        notes["holes of masks filled"] += found.holes if found else 0
        return found.rings if found else ()
    rings = []
    for polygon in given or ():
        if len(polygon) < 6 or len(polygon) % 2:
            notes["polygons with fewer than 3 points left out"] += 1
        else:
            rings.append(np.asarray(polygon, np.float64).reshape(-1, 2))
    return tuple(rings)
