"""Pascal VOC annotations to YOLO label lines."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree


def yolo_lines(xml: str, classes: Mapping[str, int]) -> list[str]:
    """Label lines `class x y w h` (fractions of the image) for every object in a Pascal VOC document.

    Boxes are clipped to the image; what lies outside it altogether is left out.
    """
    root = ElementTree.fromstring(xml)
    width, height = (int(root.findtext(f"size/{side}", "0")) for side in ("width", "height"))
    lines = []
    for item in root.iter("object"):
        x0, x1 = (_clipped(item, f"bndbox/{side}", width) for side in ("xmin", "xmax"))
        y0, y1 = (_clipped(item, f"bndbox/{side}", height) for side in ("ymin", "ymax"))
        if x1 > x0 and y1 > y0:
            numbers = ((x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height)
            lines.append(" ".join([str(classes[item.findtext("name", "")]), *(f"{n:.6f}" for n in numbers)]))
    return lines


def _clipped(item: ElementTree.Element, path: str, limit: int) -> float:
    return min(max(float(item.findtext(path, "0")), 0.0), float(limit))
