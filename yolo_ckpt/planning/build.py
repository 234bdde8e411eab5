"""From simulated steps to the planning problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from yolo_ckpt.plan import Plan
from yolo_ckpt.planning.problem import Option, Problem
from yolo_ckpt.planning.times import StageTime, step_ms


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
    @property
    def flops(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A window of a step that was not simulated itself."""

    phase: str
    stage: int
    start_bytes: int
    peak_bytes: int
    flops: int


def scaled(windows: Sequence[Window], fixed_bytes: int, images: float) -> list[Window]:
    """The windows of the same step with `images` times its images: all but `fixed_bytes` grows with them."""

    def grown(nbytes: int) -> int:
        return int(fixed_bytes + images * (nbytes - fixed_bytes))

    return [
        _Part(
            phase=w.phase,
            stage=w.stage,
            start_bytes=grown(w.start_bytes),
            peak_bytes=grown(w.peak_bytes),
            flops=int(images * w.flops),
        )
        for w in windows
    ]


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
        self.computed = [forward[i].flops for i in range(stages)]
        self.backward_flops = [backward[i].flops if i in backward else 0 for i in range(stages)]
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


def build_problem(steps: Mapping[str, Sequence[Window]], full: Plan, times: Sequence[StageTime]) -> Problem:
    """The problem whose options are the actions of `steps`: the windows of a step with that action at every stage that
    `full` plans, and `save` at the others. `times` are those of the stages."""
    count = len(full.stages)
    runs = {action: _Run(windows, count) for action, windows in steps.items()}
    units = []
    for stages in units_of(full):
        actions = list(runs) if full.stages[stages[0]].action != "save" else ["save"]
        units.append(tuple(_option(action, stages, runs, times) for action in actions))
    return Problem(
        fixed_bytes=max(r.base for r in runs.values()),
        loss_bytes=max(r.loss for r in runs.values()),
        units=tuple(units),
    )


def _option(action: str, stages: Sequence[int], runs: Mapping[str, _Run], times: Sequence[StageTime]) -> Option:
    first, last = stages[0], stages[-1]
    run = runs[action]
    before = run.before[first]
    recomputed = sum(max(run.backward_flops[i] - runs["save"].backward_flops[i], 0) for i in stages)
    computed = sum(run.computed[i] for i in stages)
    added = 0.0
    if action != "save":
        added += sum(times[i].cheap_ms for i in stages)
        added += sum(times[i].dear_ms for i in stages) * min(recomputed / computed, 1.0) if computed else 0.0
    return Option(
        action=action,
        kept_bytes=run.before[last + 1] - before,
        forward_bytes=max(run.forward[i] for i in stages) - before,
        backward_bytes=max(run.backward[i] for i in stages) - before,
        added_ms=added,
        recomputed_flops=recomputed,
    )


class Step(Protocol):
    """A simulated step."""

    @property
    def windows(self) -> Sequence[Window]: ...


def recomputed_flops(planned: Step, stock: Step) -> tuple[int, ...]:
    """Operations of convolutions, matrix products and attention that each stage's backward pass has beyond those of the
    same step without a plan."""
    ours, theirs = ({w.stage: w.flops for w in s.windows if w.phase == "backward"} for s in (planned, stock))
    stages = sum(w.phase == "forward" for w in stock.windows)
    return tuple(max(ours.get(i, 0) - theirs.get(i, 0), 0) for i in range(stages))


def added_share(plan: Plan, planned: Step, stock: Step, times: Sequence[StageTime]) -> float:
    """Time that `plan` adds to a step, as a share of the step's: the cheap operators of every stage that is recomputed,
    and as much of its convolutions as is computed again."""
    computed = {w.stage: w.flops for w in stock.windows if w.phase == "forward"}
    again = recomputed_flops(planned, stock)
    added = sum(times[s.index].cheap_ms for s in plan.planned)
    dear = sum(min(again[i], computed[i]) / computed[i] * times[i].dear_ms for i in computed if computed[i])
    return (added + dear) / step_ms(times)
