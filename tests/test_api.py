"""`plan`, `measure` and `verify` in Python."""

from __future__ import annotations

import pytest
import torch

import yolo_ckpt
from tests.conftest import both_modes, host_model, toy
from yolo_ckpt.remat import normalize


@both_modes
def test_meta_and_cpu_measure_the_same(ckpt: str) -> None:
    model, simulated = host_model("yolo26n.yaml"), host_model("yolo26n.yaml", "meta")
    plan = yolo_ckpt.plan(model, imgsz=256, batch=1, ckpt=ckpt)
    real = yolo_ckpt.measure(model, imgsz=256, batch=1, plan=plan)
    meta = yolo_ckpt.measure(simulated, imgsz=256, batch=1, plan=plan)
    assert meta.peak_bytes == pytest.approx(real.peak_bytes, rel=0.01)
    assert meta.step_ms is None
    assert real.step_ms is not None


def test_measure_and_plan_leave_the_model_alone() -> None:
    model = toy()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    random_state = torch.get_rng_state()
    plan = yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt="full")
    yolo_ckpt.measure(model, imgsz=32, batch=1, plan=plan)
    yolo_ckpt.verify(model, plan, imgsz=32, batch=2)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(random_state, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())


def test_stage_bytes_add_up() -> None:
    model = toy()
    measured = yolo_ckpt.measure(model, imgsz=64, batch=2)
    assert [s.index for s in measured.stages] == [0, 1, 2, 3]
    inputs = 2 * 3 * 64 * 64 * 4
    kept = sum(s.kept_bytes for s in measured.stages)
    assert kept + measured.fixed_bytes + inputs == pytest.approx(measured.forward_bytes, rel=0.01)


def test_verify_names_the_first_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate must fail when the engine is wrong: a replay that is off by one part in 10^5."""
    stock = normalize.Norm.normalize
    monkeypatch.setattr(normalize.Norm, "normalize", lambda self, x: stock(self, x) * 1.00001)
    model = toy()
    plan = yolo_ckpt.plan(model, imgsz=32, batch=2, ckpt="selective")
    with pytest.raises(yolo_ckpt.ParityError, match="gradient of model"):
        yolo_ckpt.verify(model, plan, imgsz=32, batch=2, steps=1)


def test_verify_finds_statistics_that_move_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_ckpt.remat import fused

    count = fused._count_batch
    monkeypatch.setattr(fused, "_count_batch", lambda bn: (count(bn), count(bn))[0])
    model = toy()
    plan = yolo_ckpt.plan(model, imgsz=32, batch=2, ckpt="selective")
    with pytest.raises(yolo_ckpt.ParityError, match="num_batches_tracked"):
        yolo_ckpt.verify(model, plan, imgsz=32, batch=2, steps=1)


def test_verify_needs_numbers() -> None:
    model = toy().to("meta")
    with pytest.raises(yolo_ckpt.RequestError, match="meta"):
        yolo_ckpt.verify(model, yolo_ckpt.plan(model, imgsz=32, batch=1), imgsz=32, batch=1)


@pytest.mark.parametrize("sizes", [{"imgsz": 0, "batch": 1}, {"imgsz": 32, "batch": 0}])
def test_sizes_must_be_positive(sizes: dict[str, int]) -> None:
    with pytest.raises(yolo_ckpt.RequestError, match="at least 1"):
        yolo_ckpt.plan(toy(), **sizes)
