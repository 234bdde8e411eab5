"""Time of each stage's forward pass on a real device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from yolo_ckpt.measuring.watch import watched

ROUNDS = 3  # after one that warms up
ENOUGH_S = 2.0  # once this long was measured, no further round begins


def stage_forward_ms(stages: Sequence[nn.Module], forward: Callable[[], Any], device: torch.device) -> list[float]:
    """Milliseconds of every stage in `forward()`, which runs the model on `device`: the medians of a few runs."""
    clock = _CudaClock(device) if device.type == "cuda" else _Clock()
    rounds: list[list[float]] = []
    while len(rounds) <= ROUNDS and sum(map(sum, rounds)) < ENOUGH_S * 1e3:
        starts: list[Any] = [None] * len(stages)
        ends: list[Any] = [None] * len(stages)
        with watched(stages, lambda i, s=starts: _set(s, i, clock.now()), lambda i, _, e=ends: _set(e, i, clock.now())):  # type: ignore[misc]
            forward()
        rounds.append([clock.between(*pair) for pair in zip(starts, ends, strict=True)])
    return [statistics.median(times) for times in zip(*(rounds[1:] or rounds), strict=True)]


def _set(places: list[Any], index: int, value: Any) -> None:
    places[index] = value


class _Clock:
    """For devices that have finished when the call returns."""

    def now(self) -> Any:
        """A moment."""
        return time.perf_counter()

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds from one to the other."""
        return float(end - start) * 1e3


class _CudaClock(_Clock):
    """Moments on the device's own time line."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device)

    def now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def between(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end))
