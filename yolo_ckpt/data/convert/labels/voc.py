"""Pascal VOC XML, with the turned boxes that roLabelImg adds to it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from yolo_ckpt.data.convert.geometry import Points, corners
from yolo_ckpt.data.convert.labels.items import Annotation, Item
from yolo_ckpt.data.convert.problems import BrokenFileError


def annotation(path: Path, *, drop_difficult: bool) -> Annotation:
    """The objects in a file.

    Raises:
        BrokenFileError: It cannot be read or understood.
    """
    try:
        return parsed(path.read_bytes(), drop_difficult=drop_difficult)
    except OSError as error:
        raise BrokenFileError(f"its label cannot be read: {error}") from error


def parsed(xml: bytes, *, drop_difficult: bool) -> Annotation:
    """The objects in a document.

    Raises:
        BrokenFileError: It cannot be understood.
    """
    try:
        root = ElementTree.fromstring(xml)
        width, height = (int(float(root.findtext(f"size/{side}") or 0)) for side in ("width", "height"))
        notes: Counter[str] = Counter()
        items = []
        for element in root.iter("object"):
            if drop_difficult and (element.findtext("difficult") or "0").strip() not in ("", "0"):
                notes["difficult objects left out"] += 1
                continue
            items.append(_item(element))
    except ElementTree.ParseError as error:
        raise BrokenFileError(f"its label is no XML ({error})") from error
    except ValueError as error:
        raise BrokenFileError(f"its label cannot be read: {error}") from error
    return Annotation(items=tuple(items), size=(width, height) if width and height else None, notes=notes)


def _item(element: ElementTree.Element) -> Item:
    name = (element.findtext("name") or "").strip()
    if not name:
        raise BrokenFileError("its label has an object without a name")
    turned = element.find("robndbox")
    if turned is not None:
        return Item(name=name, rings=(_turned(turned),))
    x0, x1 = sorted(_number(element, f"bndbox/{side}") for side in ("xmin", "xmax"))
    y0, y1 = sorted(_number(element, f"bndbox/{side}") for side in ("ymin", "ymax"))
    box = (x0, y0, x1, y1)
    return Item(name=name, rings=(corners(box),), box=box, only_box=True)


def _turned(element: ElementTree.Element) -> Points:
    cx, cy, width, height, angle = (_number(element, part) for part in ("cx", "cy", "w", "h", "angle"))
    along = np.array([math.cos(angle), math.sin(angle)]) * width / 2
    across = np.array([-math.sin(angle), math.cos(angle)]) * height / 2
    points: Points = np.array([cx, cy]) + np.array([-along - across, along - across, along + across, -along + across])
    return points


def _number(element: ElementTree.Element, path: str) -> float:
    text = element.findtext(path)
    if text is None:
        raise BrokenFileError(f"its label has an object without {path}")
    number = float(text)
    if not math.isfinite(number):
        raise BrokenFileError(f"its label has {path} that is no number")
    return number
