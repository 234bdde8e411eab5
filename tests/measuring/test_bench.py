"""The bench compares ways honestly: it finds what differs, and that something does not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import yolo_ckpt
from tests.conftest import toy
from yolo_ckpt.measuring import run_bench
from yolo_ckpt.measuring.bench import Way
from yolo_ckpt.measuring.peers import checkpoint_stages, saved_on_cpu
from yolo_ckpt.stages import stages_of


class WithLoss(nn.Module):
    """A staged model that takes a batch, as the host's do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = toy()

    def forward(self, batch: dict[str, Tensor]) -> Any:
        loss = self.inner(batch["img"]).square().mean()
        return loss, {}


BATCH = {"img": torch.rand(2, 3, 64, 64)}
STOCK = Way(name="stock", prepare=lambda m: m)


def planned(model: Any) -> Any:
    yolo_ckpt.apply(model.inner, yolo_ckpt.plan(model.inner, imgsz=64, batch=2, ckpt="full"))
    return model


def checkpointed(model: Any) -> Any:
    checkpoint_stages(stages_of(model.inner))
    return model


def test_kernels_are_deterministic_as_in_the_hosts_training() -> None:
    seen: list[bool] = []

    def watched(model: Any) -> Any:
        return lambda batch: seen.append(torch.are_deterministic_algorithms_enabled()) or model(batch)

    run_bench(WithLoss().train(), [Way(name="watched", prepare=watched)], BATCH, rounds=1)
    assert seen
    assert all(seen)
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_each_way_needs() -> None:
    ways = [STOCK, Way(name="full", prepare=planned), Way(name="checkpoint", prepare=checkpointed)]
    ways += [Way(name="cpu", prepare=lambda m: saved_on_cpu(m, pinned=False))]
    model = WithLoss().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    stock, full, checkpoint, cpu = run_bench(model, ways, BATCH, rounds=2)
    assert full.live_bytes is not None
    assert stock.live_bytes is not None
    assert full.live_bytes < stock.live_bytes
    assert stock.difference is full.difference is cpu.difference is None
    assert checkpoint.difference is not None
    assert "running_mean" in checkpoint.difference  # pytorch#96136
    assert stock.step_ratio == 1.0
    assert all(r.step_ms is not None and r.step_ms > 0 for r in (stock, full, checkpoint, cpu))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_a_way_that_does_not_fit_is_a_result() -> None:
    def too_large(_: Any) -> Any:
        def forward(batch: Any) -> Any:
            raise torch.OutOfMemoryError("tried to allocate")

        return forward

    stock, large = run_bench(WithLoss().train(), [STOCK, Way(name="large", prepare=too_large)], BATCH, rounds=1)
    assert stock.fits
    assert not large.fits
    assert large.live_bytes is large.step_ms is large.difference is None


def test_models_that_do_not_fit_side_by_side_have_no_times() -> None:
    def later(model: Any) -> Any:
        calls: list[int] = []

        def forward(batch: Any) -> Any:
            calls.append(1)
            if len(calls) > 3:  # two steps for parity and one for memory come before
                raise torch.OutOfMemoryError("tried to allocate")
            return model(batch)

        return forward

    results = run_bench(WithLoss().train(), [STOCK, Way(name="later", prepare=later)], BATCH, rounds=2)
    assert [r.fits for r in results] == [True, True]
    assert [r.step_ms for r in results] == [None, None]


def test_other_failures_are_failures() -> None:
    def broken(_: Any) -> Any:
        raise ValueError("broken way")

    with pytest.raises(ValueError, match="broken way"):
        run_bench(WithLoss().train(), [STOCK, Way(name="broken", prepare=broken)], BATCH, rounds=0)
