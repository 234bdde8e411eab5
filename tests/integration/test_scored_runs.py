"""Training runs with bounded NMS and masks in their validations, compared with stock ones."""

from __future__ import annotations

import csv
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.integration.running import train
from tests.integration.test_scoring import Calls, same
from yolo_ckpt.integration import validation

pytest.importorskip("ultralytics")

TINY = """
nc: 2
backbone:
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, Conv, [32, 3, 2]]
  - [-1, 1, C3k2, [32, False, 0.25]]
  - [-1, 1, Conv, [32, 3, 2]]
head:
  - [[3, 4], 1, Segment, [nc, 8, 16]]
"""


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    """Eight images of two or three squares, as polygons."""
    import cv2

    root, rng = tmp_path / "shapes", np.random.default_rng(0)
    for i in range(8):
        for kind in ("images", "labels"):
            (root / kind).mkdir(parents=True, exist_ok=True)
        image, rows = rng.integers(0, 40, (64, 64, 3), dtype=np.uint8), []
        for j in range(2):
            x, y, w = 32 * j + int(rng.integers(0, 6)), int(rng.integers(0, 40)), int(rng.integers(16, 24))
            label = int(rng.integers(0, 2))
            cv2.rectangle(image, (x, y), (x + w, y + w), (255, 255 * label, 0), -1)
            corners = ((x, y), (x + w, y), (x + w, y + w), (x, y + w))
            rows.append(f"{label} " + " ".join(f"{min(a / 64, 1)} {min(b / 64, 1)}" for a, b in corners))
        cv2.imwrite(str(root / "images" / f"{i}.png"), image)
        (root / "labels" / f"{i}.txt").write_text("\n".join(rows), encoding="utf-8")
    path = root / "data.yaml"
    path.write_text(f"path: {root}\ntrain: images\nval: images\nnames: [a, b]\n", encoding="utf-8")
    return path


@pytest.fixture
def finding(tmp_path: Path) -> str:
    """Weights of a model that finds squares of 16 pixels everywhere: some of them are right."""
    import ultralytics

    path = tmp_path / "yolo_tiny-seg.yaml"
    path.write_text(TINY, encoding="utf-8")
    torch.manual_seed(0)
    yolo = ultralytics.YOLO(str(path))
    head = yolo.model.model[-1]
    with torch.no_grad():
        for boxes, classes, masks in zip(head.cv2, head.cv3, head.cv4, strict=True):
            boxes[-1].bias.view(4, -1)[:, 1] = 9.0  # a distance of one stride
            classes[-1].bias.fill_(-2.0)
            masks[-1].bias.normal_(0.3)
        head.proto.cv3.bn.weight.fill_(30.0)  # masks differ from pixel to pixel
    yolo.save(tmp_path / "finding.pt")
    return str(tmp_path / "finding.pt")


class Seen:
    """What validations find: true positives, confidences and classes of every image."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from ultralytics.utils.metrics import DetMetrics

        self.stats: list[dict[str, Any]] = []
        original = DetMetrics.update_stats

        def update(metrics: Any, stat: dict[str, Any]) -> None:
            self.stats.append(stat)
            original(metrics, stat)

        patch.setattr(DetMetrics, "update_stats", update)

    def by_image(self) -> list[tuple[str, dict[str, Any]]]:
        return [(s["im_name"], {k: v for k, v in s.items() if k != "im_name"}) for s in self.stats]


def without_curves(patch: pytest.MonkeyPatch) -> None:
    """Draw no pictures but those of images: the others are made of the metrics, and slow."""
    from ultralytics.engine.trainer import BaseTrainer
    from ultralytics.models.yolo.detect import DetectionTrainer
    from ultralytics.utils import metrics

    for owner, name in (
        (metrics, "plot_pr_curve"), (metrics, "plot_mc_curve"), (metrics.ConfusionMatrix, "plot"),
        (DetectionTrainer, "plot_training_labels"), (DetectionTrainer, "plot_training_samples"),
        (BaseTrainer, "plot_metrics"),
    ):  # fmt: skip
        patch.setattr(owner, name, lambda *_, **__: None)


def pictures(folder: Path) -> dict[str, bytes]:
    """The pictures of validated images, once they are drawn."""
    for thread in threading.enumerate():
        if "plot_images" in thread.name:
            thread.join()
    return {path.name: path.read_bytes() for path in folder.glob("val_batch*.jpg")}


CASES = ({"plots": True}, {"overlap_mask": False, "mask_ratio": 2}, {"save_txt": True, "save_json": True})


@pytest.mark.parametrize("given", CASES, ids=["plots", "resized", "files"])
def test_a_segmentation_run_has_stocks_metrics(
    given: dict[str, Any],
    shapes: Path,
    finding: str,
    arguments: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"data": str(shapes), "imgsz": 64, "epochs": 1, "mosaic": 0.0}
    given = {**arguments, **sizes, "lr0": 1e-6, "warmup_epochs": 0, "optimizer": "SGD", **given}
    runs = []
    for name, ckpt in (("stock", "stock"), ("bounded", "full")):
        with monkeypatch.context() as patch:
            patch.setattr(validation, "_part_of", lambda group, most: group)  # convolutions round by the batch
            without_curves(patch)
            seen, calls = Seen(patch), Calls(patch)
            end = train({**given, "name": name}, ckpt, finding)
        folder = tmp_path / name
        rows = list(csv.DictReader((folder / "results.csv").open(encoding="utf-8")))
        metrics = [{k: v for k, v in row.items() if k.startswith("metrics/")} for row in rows]
        matrix = end["trainer"].validator.confusion_matrix.matrix
        files = {p.name: p.read_text(encoding="utf-8") for p in (*folder.glob("labels/*"), *folder.glob("*.json"))}
        files.pop("ckpt_plan.json", None), files.pop("ckpt_report.json", None)
        runs.append((seen.by_image(), metrics, matrix, pictures(folder), files, calls.counts))
    stock, ours = runs
    decoded = 0 if given.get("save_txt") else 16  # eight images, after the epoch and at the end
    assert list(stock[-1].values()) == [0, 0, 0]
    assert ours[-1] == {"detections": 4, "predicted_masks": decoded, "mask_overlaps": 16}
    assert [name for name, _ in ours[0]] == [name for name, _ in stock[0]]
    assert all(same(a, b) for (_, a), (_, b) in zip(stock[0], ours[0], strict=True))
    assert sum(s["tp"].sum() for _, s in stock[0]) > 40
    assert sum(s["tp_m"].sum() for _, s in stock[0]) > 20
    assert stock[1] == ours[1]
    assert float(stock[1][0]["metrics/mAP50(M)"]) > 0
    assert np.array_equal(stock[2], ours[2])
    assert bool(stock[2].sum()) is bool(stock[3]) is bool(given.get("plots"))
    assert stock[3] == ours[3]
    assert bool(stock[4]) is bool(given.get("save_txt"))
    assert stock[4] == ours[4]
