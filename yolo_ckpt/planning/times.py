"""Time of the stages, for weighing what to recompute: estimated from their work, or measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PASSES = 3  # a step's arithmetic in forward passes: one forward, and a backward of twice its work


class Work(Protocol):
    """What the forward pass of a stage computes and moves."""

    @property
    def flops(self) -> int: ...
    @property
    def dear_bytes(self) -> int: ...
    @property
    def cheap_bytes(self) -> int: ...
    @property
    def dear_calls(self) -> int: ...
    @property
    def cheap_calls(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """The forward pass of one stage.

    Attributes:
        cheap_ms: Its cheap operators.
        dear_ms: Its convolutions, matrix products and attention.
    """

    cheap_ms: float
    dear_ms: float

    @property
    def forward_ms(self) -> float:
        """All of it."""
        return self.cheap_ms + self.dear_ms


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a device is, for estimates of time.

    Attributes:
        flops_per_s: Of convolutions, as they run in practice.
        bytes_per_s: Of memory.
        call_ms: What starting one operator costs at least.
    """

    flops_per_s: float
    bytes_per_s: float
    call_ms: float

    def estimate(self, work: Work, images: float = 1.0) -> StageTime:
        """By a roofline (Williams, Waterman and Patterson 2009): the slower of arithmetic and memory, and never less
        than starting the operators. For `images` times the images that `work` was counted with."""
        moving_ms = images * work.cheap_bytes / self.bytes_per_s * 1e3
        computing_ms = images * max(work.flops / self.flops_per_s, work.dear_bytes / self.bytes_per_s) * 1e3
        return StageTime(
            cheap_ms=max(moving_ms, work.cheap_calls * self.call_ms),
            dear_ms=max(computing_ms, work.dear_calls * self.call_ms),
        )


# What one consumer card reaches in practice. The ratio of the first two numbers is what a choice of actions depends on,
# and it differs little between cards.
TYPICAL = Speed(flops_per_s=30e12, bytes_per_s=600e9, call_ms=0.008)


def measured_times(forward_ms: Sequence[float], work: Sequence[Work]) -> list[StageTime]:
    """Measured forward passes, each divided into cheap and dear as the estimate divides it."""
    times = []
    for ms, one in zip(forward_ms, work, strict=True):
        guess = TYPICAL.estimate(one)
        share = guess.cheap_ms / guess.forward_ms if guess.forward_ms else 0.0
        times.append(StageTime(cheap_ms=share * ms, dear_ms=(1 - share) * ms))
    return times


def step_ms(times: Sequence[StageTime]) -> float:
    """A training step without a plan."""
    return PASSES * sum(t.forward_ms for t in times)
