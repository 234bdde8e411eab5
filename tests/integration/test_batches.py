"""Made batches train every task, and are the same each time."""

from __future__ import annotations

import pytest
import torch

from tests.conftest import host_model, toy
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration.batches import made_batch, task_of

TASKS = {
    "yolo26n.yaml": "detect", "yolo11n-seg.yaml": "segment", "yolo26n-seg.yaml": "segment",
    "yolo26n-pose.yaml": "pose", "yolo11n-obb.yaml": "obb", "yolo26n-cls.yaml": "classify",
    "yolo26n-sem.yaml": "semantic", "yolo26n-depth.yaml": "depth", "rtdetr-l.yaml": "detect",
    "yolov8s-worldv2.yaml": "detect",
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_of_every_task_takes_them(name: str) -> None:
    model = host_model(name)
    batch = made_batch(model, imgsz=128, batch=2, objects=6, device="cpu")
    assert task_of(model) == TASKS[name]
    loss, _ = model(batch)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_same_each_time_and_as_many_objects_as_asked() -> None:
    model = host_model("yolo26n-seg.yaml")
    a, b = (made_batch(model, imgsz=64, batch=3, objects=5, device="cpu") for _ in range(2))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert a["cls"].shape == (15, 1)
    assert a["batch_idx"].int().bincount().tolist() == [5, 5, 5]


def test_an_image_without_objects() -> None:
    model = host_model("yolo26n.yaml")
    loss, _ = model(made_batch(model, imgsz=64, batch=2, objects=0, device="cpu"))
    assert torch.isfinite(loss).all()


def test_a_task_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yolo_ckpt.integration.batches.task_of", lambda _: "juggle")
    with pytest.raises(RequestError, match="juggle"):
        made_batch(toy(), imgsz=32, batch=1, objects=1, device="cpu")
