"""Ways to run the same training step, side by side: peak memory, time, and whether the results are the same bits.

1. Every way gets its own copy of the model and starts from the same weights, buffers and random state.
2. While memory is measured, that copy is the only one on the device. The step that is measured is the second one, so
   that gradients exist.
3. Times are taken in rounds in which every way runs one step, in changing order: a slow spell meets all of them.
4. A way that does not fit on the device is a result, not a failure.
5. Kernels are deterministic, as the host trains by default: without that some models (rtdetr-l) do not repeat their own
   bits.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.measuring.live import LiveBytes, tensors_in
from yolo_ckpt.measuring.parity import State, first_difference, snapshot

Batch = dict[str, Tensor]
PARITY_STEPS = 2
LOSS_SCALE = 2.0**10  # of a half-precision step: the host's scaler ends up near it


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run the step.

    Attributes:
        name: In tables.
        prepare: Changes a copy of the model in place, and returns what takes a batch and gives (loss, items).
        traceable: False where live bytes cannot be followed, or would count host memory too.
    """

    name: str
    prepare: Callable[[nn.Module], Callable[[Batch], Any]]
    traceable: bool = True


@dataclass(frozen=True, kw_only=True)
class WayResult:
    """What one way needs.

    Attributes:
        way: Its name.
        fits: False when the device has not enough memory; then the rest is None.
        live_bytes: Peak tensor storage alive: parameters, buffers, gradients, batch, activations, temporaries.
        allocated_bytes: Peak bytes allocated on the device, workspaces included (CUDA).
        reserved_bytes: Peak bytes reserved by the allocator (CUDA).
        step_ms: Median.
        step_ratio: Median of its time by the first way's time in the same round.
        difference: The first difference from the first way's results; None when all are equal to the last bit.
    """

    way: str
    fits: bool
    live_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    step_ms: float | None = None
    step_ratio: float | None = None
    difference: str | None = None


class _Trial:
    """One way with its copy of the model."""

    def __init__(self, way: Way, model: nn.Module, batch: Batch, amp: torch.dtype | None) -> None:
        self.way, self.batch, self.amp = way, batch, amp
        self.device = batch["img"].device
        self.model = copy.deepcopy(model).to(self.device)
        self.forward = way.prepare(self.model)

    def step(self) -> Tensor:
        """Forward with the loss, and backward; the detached loss."""
        with torch.autocast(self.device.type, self.amp or torch.bfloat16, enabled=self.amp is not None):
            loss, _ = self.forward(self.batch)
        (loss.sum() * (LOSS_SCALE if self.amp is torch.float16 else 1.0)).backward()
        return loss.detach()  # type: ignore[no-any-return]

    def state(self) -> State:
        """What `PARITY_STEPS` steps leave, on the CPU."""
        torch.manual_seed(0)
        outputs = []
        for _ in range(PARITY_STEPS):
            outputs.append([self.step()])
            with torch.no_grad():
                for parameter in self.model.parameters():
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad, alpha=1e-6)
        return {k: v.cpu() for k, v in snapshot(self.model, outputs).items()}

    def memory(self) -> WayResult:
        """Peak memory of a step."""
        found = WayResult(way=self.way.name, fits=True)
        if self.device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
            self.step()
            found = replace(
                found,
                allocated_bytes=torch.cuda.max_memory_allocated(self.device),
                reserved_bytes=torch.cuda.max_memory_reserved(self.device),
            )
        return replace(found, live_bytes=self._live_bytes()) if self.way.traceable else found

    def _live_bytes(self) -> int:
        grads = (p.grad for p in self.model.parameters() if p.grad is not None)
        with LiveBytes() as live:
            live.add([*self.model.parameters(), *self.model.buffers(), *grads, *tensors_in(self.batch)])
            self.step()
        return int(live.peak_bytes)

    def step_ms(self) -> float:
        """Milliseconds of a step: between two events on CUDA, by the clock elsewhere."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            self.step()
            return (time.perf_counter() - start) * 1e3
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self.device)
        before.record()
        self.step()
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after))


def run_bench(
    model: nn.Module,
    ways: Sequence[Way],
    batch: Batch,
    *,
    amp: torch.dtype | None = None,
    rounds: int = 5,
    tell: Callable[[str], object] = str,
) -> list[WayResult]:
    """Run one training step of `model` in every way; the first is what the others are compared with.

    Args:
        model: In train mode, on the CPU. It stays as it is.
        ways: What to compare.
        batch: On the device to measure on.
        amp: Autocast to this type; None for none.
        rounds: Timed steps of each way; 0 for no times.
        tell: Called with the name of each way that begins.
    """
    with _deterministic():
        return _run(model, ways, batch, amp, rounds, tell)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Inside, torch takes deterministic kernels where there are some (rule 5)."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filling: Any = torch.utils.deterministic
    others = torch.backends.cudnn.deterministic, filling.fill_uninitialized_memory
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic, filling.fill_uninitialized_memory = True, False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.backends.cudnn.deterministic, filling.fill_uninitialized_memory = others


def _run(
    model: nn.Module,
    ways: Sequence[Way],
    batch: Batch,
    amp: torch.dtype | None,
    rounds: int,
    tell: Callable[[str], object],
) -> list[WayResult]:
    results: list[WayResult] = []
    trials: list[_Trial] = []
    expected: State | None = None
    for way in ways:
        tell(way.name)
        trial, state, result = _tried(way, model, batch, amp)
        if state is not None and trial is not None:
            expected = state if expected is None else expected
            result = replace(result, difference=first_difference(expected, state))
            trial.model.to("cpu")
            trials.append(trial)
        results.append(result)
        _clear(batch["img"].device)
    tell("times")
    times = _times(trials, rounds) if rounds else {}
    return [_with_times(result, times, results[0].way) for result in results]


def _tried(
    way: Way, model: nn.Module, batch: Batch, amp: torch.dtype | None
) -> tuple[_Trial | None, State | None, WayResult]:
    try:
        trial = _Trial(way, model, batch, amp)
        state = trial.state()
        return trial, state, trial.memory()
    except torch.OutOfMemoryError:
        return None, None, WayResult(way=way.name, fits=False)


def _clear(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _times(trials: Sequence[_Trial], rounds: int) -> dict[str, list[float]]:
    """Milliseconds per way, one of every round; none where the models do not fit on the device side by side."""
    times: dict[str, list[float]] = {}
    try:
        for trial in trials:
            trial.model.to(trial.device)
            trial.step()
        for i in range(rounds):
            for trial in trials if i % 2 else reversed(trials):
                times.setdefault(trial.way.name, []).append(trial.step_ms())
    except torch.OutOfMemoryError:
        return {}
    return times


def _with_times(result: WayResult, times: dict[str, list[float]], first: str) -> WayResult:
    own, reference = times.get(result.way), times.get(first)
    if not own:
        return result
    ratio = statistics.median(a / b for a, b in zip(own, reference, strict=True)) if reference else None
    return replace(result, step_ms=statistics.median(own), step_ratio=ratio)
