"""One label, whatever its format."""

from __future__ import annotations

from yolo_ckpt.data.convert.labels import coco, dota, mask, voc, yolo
from yolo_ckpt.data.convert.labels.find import Label
from yolo_ckpt.data.convert.labels.items import Annotation
from yolo_ckpt.data.convert.request import Request


def loaded(label: Label, size: tuple[int, int], request: Request) -> Annotation:
    """The objects of one image, which has `size` (width, height).

    Raises:
        BrokenFileError: The label cannot be read or understood.
    """
    if label.format == "coco":
        assert label.entry is not None
        return coco.annotation(label.entry, size)
    if label.format == "voc":
        return voc.annotation(label.path, drop_difficult=request.drop_difficult)
    if label.format == "dota":
        return dota.annotation(label.path, drop_difficult=request.drop_difficult)
    if label.format == "yolo":
        return yolo.annotation(label.path, size, label.names, label.keypoint_values)
    return mask.annotation(
        label.path, meaning=label.meaning, classes=request.classes, class_values=request.class_values
    )
