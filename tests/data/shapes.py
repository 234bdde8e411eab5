"""Made images whose labels can be found again in their pixels: saturated shapes on grey, none touching another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
SIDE, CELLS = 640, 4  # pixels of the image's side; shapes in a row, one in a cell
FLIP_IDX = [1, 0, 2]


def polygon(task: str, rng: np.random.Generator) -> Points:
    """One shape around (0, 0), as pixels (N, 2): an upright rectangle, one at an angle, or an arrow."""
    w, h = rng.uniform(70, 110), rng.uniform(40, 60)
    box = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2
    arrow = np.array([[-w, -h / 2], [0, -h / 2], [0, -h], [w, 0], [0, h], [0, h / 2], [-w, h / 2]]) / 2
    angle = 0.0 if task in ("detect", "pose") else rng.uniform(0, np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.asarray((arrow if task == "segment" else box) @ turn.T, dtype=np.float32)


def row(task: str, points: Points) -> str:
    """The label of a shape."""
    share = points / SIDE
    low, high = share.min(0), share.max(0)
    box = [*(low + high) / 2, *(high - low)]
    corners = [v for x, y in (share[0], share[1], share[2]) for v in (x, y, 2)] if task == "pose" else []
    numbers = [*box, *corners] if task in ("detect", "pose") else share.ravel().tolist()
    return " ".join(["0", *(f"{n:.6f}" for n in numbers)])


def write_shapes(root: Path, task: str, *, count: int = 4, channels: int = 3) -> Path:
    """A data set for `task`; the path of its YAML file. Shapes lie close to the border as well."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for i in range(count):
            image = np.full((SIDE, SIDE, 3), 60, np.uint8)
            rows = []
            for cell in range(CELLS**2):
                size = SIDE / CELLS
                centre = np.array([cell % CELLS + 0.5, cell // CELLS + 0.5]) * size + rng.uniform(-12, 12, 2)
                points = (
                    np.clip(polygon(task, rng) + centre, 0, SIDE) if task == "detect" else polygon(task, rng) + centre
                )
                cv2.fillPoly(image, [np.round(points * 16 - 8).astype(np.int32)], (40, 40, 230), shift=4)
                rows.append(row(task, points))
            cv2.imwrite(str(root / "images" / split / f"{i}.png"), image)
            (root / "labels" / split / f"{i}.txt").write_text("\n".join(rows), encoding="utf-8")
    extra = f"kpt_shape: [3, 3]\nflip_idx: {FLIP_IDX}\n" if task == "pose" else ""
    yaml = root / "data.yaml"
    yaml.write_text(
        f"path: {root}\ntrain: images/train\nval: images/val\nnames: [a]\nchannels: {channels}\n{extra}",
        encoding="utf-8",
    )
    return yaml


def inside(image: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where the shapes of an image (3, H, W) are: where its channels differ, in whatever light."""
    values = image.astype(np.int16)
    return np.asarray(values.max(0) - values.min(0) > 60)


def found(image: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The shapes of an image (3, H, W): each pixel's number (H, W), 0 outside."""
    return np.asarray(cv2.connectedComponents(inside(image).astype(np.uint8))[1], dtype=np.int32)


def labelled(task: str, item: dict[str, Any]) -> list[NDArray[np.bool_]]:
    """The labels of one item of the host's data set as masks of the image."""
    from ultralytics.utils.ops import xywhr2xyxyxyxy

    h, w = item["img"].shape[1:]
    if task == "segment":
        return [item["masks"][0].numpy() == i + 1 for i in range(len(item["bboxes"]))]
    boxes = item["bboxes"].clone()
    boxes[:, [0, 2]] *= w
    boxes[:, [1, 3]] *= h
    if task == "obb":
        return [_filled(corners, h, w) for corners in xywhr2xyxyxyxy(boxes).numpy()]
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    return [_filled(box[:2] + signs * box[2:], h, w) for box in boxes.numpy()]


def _filled(points: NDArray[Any], h: int, w: int) -> NDArray[np.bool_]:
    mask = np.zeros((h, w), np.uint8)
    cv2.fillPoly(mask, [np.round(points * 16 - 8).astype(np.int32)], 1, shift=4)
    return mask.astype(bool)


def overlaps(labels: list[NDArray[np.bool_]], numbers: NDArray[np.int32], least: int = 600) -> list[float]:
    """Intersection over union of every label with the shape that it covers best; labels of fewer than `least` pixels,
    the rest of what was cut at the border, are left out."""
    areas = np.bincount(numbers.ravel())
    shares = []
    for label in labels:
        common = np.bincount(numbers[label], minlength=len(areas))
        if label.sum() >= least:
            shares.append(float((common / (areas + label.sum() - common))[1:].max(initial=0.0)))
    return shares
