"""From the record of a label file to what is said about it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.check.labels import Floats, Labels
from yolo_ckpt.data.check.scan import Looked
from yolo_ckpt.units import many

LEAST_PX = 2  # `RandomPerspective.box_candidates` drops what is not wider and higher, in training
MOST_RATIO = 100  # and what is not less long in proportion
_EDGE_PX = 1.0  # by which labels reach over an edge before it is more than rounding
_POLYGON_TASKS = ("segment", "obb")


def label_findings(looked: Looked, task: str, imgsz: int) -> Iterator[Finding]:
    """Everything about the labels of one image that the host keeps, trained at `imgsz`."""
    labels, path = looked.labels, looked.label_path
    if not labels.found:
        yield finding("label-missing", looked.path, f"there is no {path}")
        return
    if labels.code:
        yield finding(labels.code, path, labels.reason)
        return
    if task in _POLYGON_TASKS and len(labels.boxes) and not labels.polygons:
        yield finding("label-boxes", path, f"{many(len(labels.boxes), 'row')} of 5 columns; task={task} needs polygons")
    if labels.duplicates:
        yield finding("label-duplicate", path, many(labels.duplicates, "row"))
    yield from _of_boxes(looked, imgsz)


def _of_boxes(looked: Looked, imgsz: int) -> Iterator[Finding]:
    width, height = looked.header.width, looked.header.height
    if not len(looked.labels.boxes) or not width:
        return
    sides = clipped_sides(looked.labels, width, height)
    over = _over_edge(looked.labels.boxes, width, height)
    if (over > _EDGE_PX).any():
        reason = f"{many(int((over > _EDGE_PX).sum()), 'object')}, by up to {over.max():.0f} px"
        yield finding("label-over-edge", looked.label_path, reason)
    empty = (sides <= 0).any(1)
    if empty.any():
        yield finding("label-no-area", looked.label_path, f"{many(int(empty.sum()), 'object')} without width or height")
    trained = sides * (imgsz / max(width, height))
    small = (trained <= LEAST_PX).any(1) & ~empty
    if small.any():
        least = trained[small].min()
        reason = f"{many(int(small.sum()), 'object')} at imgsz={imgsz}, down to {least:.1f} px"
        yield finding("object-too-small", looked.label_path, reason)
    thin = _ratio(sides) >= MOST_RATIO
    thin &= ~small & ~empty
    if thin.any():
        reason = f"{many(int(thin.sum()), 'object')}, up to {_ratio(sides)[thin].max():.0f} times as long as wide"
        yield finding("object-too-thin", looked.label_path, reason)


def clipped_sides(labels: Labels, width: int, height: int) -> Floats:
    """Width and height in pixels of what lies inside the image (N, 2)."""
    size = np.array([width, height], np.float32)
    low = np.clip(labels.boxes[:, :2] - labels.boxes[:, 2:] / 2, 0, 1) * size
    high = np.clip(labels.boxes[:, :2] + labels.boxes[:, 2:] / 2, 0, 1) * size
    return (high - low).astype(np.float32)


def _over_edge(boxes: Floats, width: int, height: int) -> Floats:
    """Pixels by which each box reaches over an edge (N,)."""
    half = boxes[:, 2:] / 2
    out = np.maximum(half - boxes[:, :2], boxes[:, :2] + half - 1) * np.array([width, height], np.float32)
    return np.asarray(out.max(1), np.float32)


def _ratio(sides: Floats) -> Floats:
    return np.asarray(sides.max(1) / np.maximum(sides.min(1), 1e-9), np.float32)
