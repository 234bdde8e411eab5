"""Forecasts against real steps: simulated on meta, measured on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import yolo_ckpt
from tests.conftest import host_model, toy
from yolo_ckpt.integration.batches import Size, made_batch
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.forecast import Forecast, Simulated, meta_copy
from yolo_ckpt.measuring import LiveBytes, tensors_in
from yolo_ckpt.plan import Plan
from yolo_ckpt.remat import registry
from yolo_ckpt.reporting import loss_line


@pytest.fixture(autouse=True)
def as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "small_bytes", 1 << 16)


def forecast(model: nn.Module, plan: Plan | None, **given: Any) -> Forecast:
    return Simulated(model, **given).step(plan)


def measured_bytes(
    model: nn.Module, plan: Plan | None, imgsz: Size, batch: int, objects: int, amp: torch.dtype | None = None
) -> int:
    """Peak live bytes of a real step with the loss, gradients included."""
    trial = copy.deepcopy(model)
    if plan is not None:
        yolo_ckpt.apply(trial, plan)
    for parameter in trial.parameters():
        parameter.grad = torch.zeros_like(parameter)
    data = made_batch(trial, imgsz=imgsz, batch=batch, objects=objects, device="cpu")
    trial.criterion = trial.init_criterion()  # whom our parts stand for is found out once, with small made problems
    grads = [p.grad for p in trial.parameters() if p.grad is not None]
    with LiveBytes() as live:
        live.add([*trial.parameters(), *trial.buffers(), *grads, *tensors_in(data)])
        with torch.autocast("cpu", amp or torch.bfloat16, enabled=amp is not None):
            loss, _ = trial(data)
        loss.sum().backward()
    return int(live.peak_bytes)


MODELS = [
    "yolo26n.yaml", "yolo11n.yaml", "yolov9t.yaml", "yolov10n.yaml", "yolo12n.yaml", "yolo26n-seg.yaml",
    "yolo11n-obb.yaml", "yolo11n-pose.yaml", "yolo26n-cls.yaml", "yolo26n-sem.yaml", "yolo26n-depth.yaml",
    "yolov8s-worldv2.yaml",
]  # fmt: skip


@pytest.mark.parametrize("ckpt", ["off", "full"])
@pytest.mark.parametrize("name", MODELS)
def test_within_two_percent_of_a_real_step(name: str, ckpt: str) -> None:
    model = host_model(name)
    plan = yolo_ckpt.plan(model, imgsz=320, batch=2, ckpt=ckpt)
    real = measured_bytes(model, plan, 320, 2, 10)
    found = forecast(model, plan, imgsz=320, batch=2, objects=10).peak_bytes
    assert 0.995 * real <= found <= 1.02 * real


@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo11n-obb.yaml"])
def test_crowded_images(name: str) -> None:
    """The assigner works on pairs there, which the forecast counts."""
    model = host_model(name)
    stock, plan = (yolo_ckpt.plan(model, imgsz=640, batch=1, ckpt=c) for c in ("off", "full"))
    real = measured_bytes(model, plan, 640, 1, 500)
    assert 0.995 * real <= forecast(model, plan, imgsz=640, batch=1, objects=500).peak_bytes <= 1.02 * real
    assert real < 0.3 * forecast(model, stock, imgsz=640, batch=1, objects=500).peak_bytes


def test_semantic_segmentation_in_bands() -> None:
    model = host_model("yolo26n-sem.yaml")
    stock, plan = (yolo_ckpt.plan(model, imgsz=480, batch=2, ckpt=c) for c in ("off", "full"))
    real = measured_bytes(model, plan, 480, 2, 0)
    assert 0.999 * real <= forecast(model, plan, imgsz=480, batch=2, objects=0).peak_bytes <= 1.001 * real
    assert real < 0.3 * forecast(model, stock, imgsz=480, batch=2, objects=0).peak_bytes


@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo26n-seg.yaml", "yolo26n-pose.yaml"])
def test_a_model_without_weights_is_forecast_alike(name: str) -> None:
    """Commands load models on meta, where the host's head loses its strides, and the loss reads them."""
    found = []
    for device in ("cpu", "meta"):
        model = host_model(name, device)
        plan = yolo_ckpt.plan(model, imgsz=640, batch=1, ckpt="full")
        found.append(Simulated(model, imgsz=640, batch=1, objects=300).step(plan).peak_bytes)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo26n-seg.yaml", "yolo26n-depth.yaml"])
def test_images_that_are_not_square(name: str) -> None:
    model = host_model(name)
    plan = yolo_ckpt.plan(model, imgsz=640, batch=2, ckpt="full")
    real = measured_bytes(model, plan, (160, 640), 2, 10)
    found = forecast(model, plan, imgsz=(160, 640), batch=2, objects=10).peak_bytes
    assert 0.995 * real <= found <= 1.02 * real


def test_sides_become_multiples_of_the_stride() -> None:
    request = {"imgsz": 641, "batch": 1, "budget_bytes": 0}
    assert Conditions(**request).size == 641  # type: ignore[arg-type]
    assert Conditions(**request, sides=(0.25, 1.0)).size == (192, 672)  # type: ignore[arg-type]
    assert Conditions(**{**request, "imgsz": 640}, sides=(192 / 640, 1.0)).size == (192, 640)  # type: ignore[arg-type]


@pytest.mark.parametrize("ckpt", ["off", "selective", "full"])
def test_mixed_precision(ckpt: str) -> None:
    model = host_model("yolo26n.yaml")
    plan = yolo_ckpt.plan(model, imgsz=320, batch=2, ckpt=ckpt)
    real = measured_bytes(model, plan, 320, 2, 10, torch.bfloat16)
    found = forecast(model, plan, imgsz=320, batch=2, objects=10, amp=torch.bfloat16).peak_bytes
    assert 0.995 * real <= found <= 1.02 * real


def test_frozen_parts_and_other_sizes() -> None:
    model = host_model("yolo26n.yaml")
    for stage in model.model[:5]:
        for parameter in stage.parameters():
            parameter.requires_grad_(False)
    plan = yolo_ckpt.plan(model, imgsz=352, batch=1, ckpt="selective")
    real = measured_bytes_of_frozen(model, plan)
    found = forecast(model, plan, imgsz=352, batch=1, objects=7).peak_bytes
    assert 0.995 * real <= found <= 1.02 * real


def measured_bytes_of_frozen(model: nn.Module, plan: Plan) -> int:
    trial = yolo_ckpt.apply(copy.deepcopy(model), plan)
    for parameter in trial.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    data = made_batch(trial, imgsz=352, batch=1, objects=7, device="cpu")
    grads = [p.grad for p in trial.parameters() if p.grad is not None]
    with LiveBytes() as live:
        live.add([*trial.parameters(), *trial.buffers(), *grads, *tensors_in(data)])
        trial(data)[0].sum().backward()
    return int(live.peak_bytes)


def test_the_model_stays_as_it_is() -> None:
    model = host_model("yolo26n.yaml")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    forecast(model, yolo_ckpt.plan(model, imgsz=64, batch=2, ckpt="full"), imgsz=64, batch=2)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert getattr(model, "criterion", None) is None
    assert not any(p.grad is not None for p in model.parameters())


def test_nothing_of_the_models_size_is_allocated() -> None:
    model = host_model("yolo26n.yaml")
    with LiveBytes() as live:
        copied = meta_copy(model)
    on_meta = sum(t.nbytes for t in (*copied.parameters(), *copied.buffers()))
    assert live.peak_bytes - on_meta < 1024  # strides and the like are on no module
    assert all(t.is_meta for t in (*copied.parameters(), *copied.buffers()))


def test_more_of_anything_is_never_forecast_less() -> None:
    model = host_model("yolo26n.yaml", "meta")
    by_batch = [forecast(model, None, imgsz=320, batch=b).peak_bytes for b in (1, 2, 3, 8)]
    by_imgsz = [forecast(model, None, imgsz=i, batch=1).peak_bytes for i in (64, 320, 352, 1280)]
    by_objects = [forecast(model, None, imgsz=320, batch=2, objects=g).peak_bytes for g in (1, 100, 3000)]
    for found in (by_batch, by_imgsz, by_objects):
        assert found == sorted(found)
        assert found[0] < found[-1]


def test_the_loss_is_the_peak_with_many_objects() -> None:
    model = host_model("yolo26n.yaml", "meta")
    plan = yolo_ckpt.plan(model, imgsz=640, batch=2, ckpt="full")
    few, many = (Simulated(model, imgsz=640, batch=2, objects=g).step(plan) for g in (5, 3000))
    warning = loss_line(many, 3000)
    assert warning is not None
    assert "3000 objects" in warning
    assert loss_line(few, 5) is None


def test_a_model_without_a_loss() -> None:
    model = toy().train()
    found = forecast(model, None, imgsz=64, batch=2)
    assert found.peak_bytes > found.fixed_bytes + found.batch_bytes
    assert len(found.kept_bytes) == 4
    assert all(kept > 0 for kept in found.kept_bytes)
