"""Times of stages: measured by forward passes that leave no trace, or estimated from work."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import toy
from yolo_ckpt.integration.clock import Estimated, Measured
from yolo_ckpt.measuring.timing import stage_forward_ms
from yolo_ckpt.measuring.work import Work
from yolo_ckpt.planning.times import TYPICAL, StageTime, measured_times, step_ms

CPU = torch.device("cpu")


class Slow(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds)
        return x


def test_each_stage_has_its_own_time() -> None:
    stages = [Slow(0.0), Slow(0.02), Slow(0.01)]
    model = nn.Sequential(*stages)
    first, second, third = stage_forward_ms(stages, lambda: model(torch.ones(1)), CPU)
    assert first < 10 <= third < second
    assert second >= 20


def test_what_takes_long_runs_once() -> None:
    runs: list[int] = []
    stage = nn.Identity()

    def forward() -> None:
        runs.append(1)
        stage(torch.ones(1))

    clock: list[float] = []
    from yolo_ckpt.measuring import timing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing.time, "perf_counter", lambda: clock.append(0.0) or 3.0 * len(clock))  # type: ignore[func-returns-value]
        assert stage_forward_ms([stage], forward, CPU) == [3000.0]
    assert len(runs) == 1


def test_measuring_leaves_no_trace() -> None:
    model: Any = toy().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    random = torch.get_rng_state()
    times = Measured(model, [Work(flops=1, dear_bytes=1, cheap_bytes=1)] * 4, imgsz=64, amp=None, device=CPU)
    few, many = times.at(1), times.at(64)
    assert times.measured
    assert all(0 <= a.forward_ms <= b.forward_ms for a, b in zip(few, many, strict=True))
    assert step_ms(many) > 0
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def test_where_nothing_fits_times_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_ckpt.integration import clock

    def too_large(*_: Any) -> Any:
        raise torch.OutOfMemoryError("tried to allocate")

    monkeypatch.setattr(clock, "stage_forward_ms", too_large)
    work = [Work(flops=10**9, dear_bytes=10**6, cheap_bytes=10**7)] * 4
    times = Measured(toy(), work, imgsz=64, amp=None, device=CPU)
    assert times.at(3) == Estimated(work, 1).at(3)
    assert not times.measured


def test_an_estimate_is_the_slower_of_arithmetic_memory_and_starting() -> None:
    large = TYPICAL.estimate(
        Work(flops=30 * 10**12, dear_bytes=1, cheap_bytes=600 * 10**9, dear_calls=1, cheap_calls=1)
    )
    assert large == StageTime(cheap_ms=1000.0, dear_ms=1000.0)
    moved = TYPICAL.estimate(Work(flops=1, dear_bytes=6 * 10**9), images=2)
    assert moved.dear_ms == pytest.approx(20.0)
    tiny = TYPICAL.estimate(Work(flops=1, dear_bytes=1, cheap_bytes=1, dear_calls=10, cheap_calls=5), images=100)
    assert tiny == StageTime(cheap_ms=5 * TYPICAL.call_ms, dear_ms=10 * TYPICAL.call_ms)


def test_a_measured_time_is_divided_as_the_estimate_is() -> None:
    work = Work(flops=30 * 10**9, cheap_bytes=600 * 10**6)
    (time_,) = measured_times([8.0], [work])
    assert time_.cheap_ms == pytest.approx(4.0)
    assert time_.dear_ms == pytest.approx(4.0)
