"""From simulated steps to the planning problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from yolo_ckpt.plan import Plan
from yolo_ckpt.planning.problem import Option, Problem


class Window(Protocol):
    """A part of a simulated step."""

    @property
    def phase(self) -> str: ...
    @property
    def stage(self) -> int: ...
    @property
    def start_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...


class _Work(Protocol):
    @property
    def flops(self) -> int: ...
    @property
    def dear_bytes(self) -> int: ...
    @property
    def cheap_bytes(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a device is, for estimates of time.

    Attributes:
        flops_per_s: Of convolutions, as they run in practice.
        bytes_per_s: Of memory.
    """

    flops_per_s: float
    bytes_per_s: float

    def cheap_ms(self, work: _Work) -> float:
        """Running a stage's cheap operators once more."""
        return work.cheap_bytes / self.bytes_per_s * 1e3

    def dear_ms(self, work: _Work) -> float:
        """Running its convolutions and matrix products once more: the slower of arithmetic and memory."""
        return max(work.flops / self.flops_per_s, work.dear_bytes / self.bytes_per_s) * 1e3


# What one consumer card reaches in practice. The ratio of the two numbers is what a choice of actions depends on, and
# it differs little between cards.
TYPICAL = Speed(flops_per_s=30e12, bytes_per_s=600e9)


class _Run:
    """One simulated step with the same action everywhere, by stage."""

    def __init__(self, windows: Sequence[Window], stages: int) -> None:
        forward = {w.stage: w for w in windows if w.phase != "backward"}
        backward = {w.stage: w for w in windows if w.phase == "backward"}
        starts = [forward[i].start_bytes for i in range(stages + 1)]
        self.base = starts[0]
        self.before = [start - self.base for start in starts]  # kept by the stages before this one
        self.forward = [forward[i].peak_bytes - self.base for i in range(stages)]
        self.backward = [backward[i].peak_bytes - self.base if i in backward else 0 for i in range(stages)]
        loss = [w.peak_bytes for w in (forward[stages], backward.get(stages)) if w is not None]
        self.loss = max(loss) - starts[-1]


def units_of(full: Plan) -> list[list[int]]:
    """Stages that are recomputed together under the fixed mode `full`, and every other stage alone."""
    units: list[list[int]] = []
    for stage in full.stages:
        if stage.opens or not units:
            units.append([])
        units[-1].append(stage.index)
    return units


def build_problem(
    steps: Mapping[str, Sequence[Window]], full: Plan, work: Sequence[_Work], speed: Speed = TYPICAL
) -> Problem:
    """The problem whose options are the actions of `steps`: the windows of a step with that action at every stage that
    `full` plans, and `save` at the others."""
    count = len(full.stages)
    runs = {action: _Run(windows, count) for action, windows in steps.items()}
    units = []
    for stages in units_of(full):
        actions = list(runs) if full.stages[stages[0]].action != "save" else ["save"]
        units.append(tuple(_option(action, stages, runs[action], work, speed) for action in actions))
    return Problem(
        fixed_bytes=max(r.base for r in runs.values()),
        loss_bytes=max(r.loss for r in runs.values()),
        units=tuple(units),
    )


def _option(action: str, stages: Sequence[int], run: _Run, work: Sequence[_Work], speed: Speed) -> Option:
    first, last = stages[0], stages[-1]
    before = run.before[first]
    added = 0.0
    if action != "save":
        added += sum(speed.cheap_ms(work[i]) for i in stages)
    if action == "full":
        added += sum(speed.dear_ms(work[i]) for i in stages)
    return Option(
        action=action,
        kept_bytes=run.before[last + 1] - before,
        forward_bytes=max(run.forward[i] for i in stages) - before,
        backward_bytes=max(run.backward[i] for i in stages) - before,
        added_ms=added,
    )
