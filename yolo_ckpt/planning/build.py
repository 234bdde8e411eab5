"""From simulated steps to the planning problem."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A simulated step whose runs of stages become options.

    Attributes:
        plan: The step's plan: one action, wherever it may be.
        windows: The step.
    """

    plan: Plan
    windows: Sequence[Window]


def runs_of(plan: Plan) -> list[tuple[int, int]]:
    """First and last stage of every run: stages that are recomputed together, and every other stage alone."""
    runs: list[tuple[int, int]] = []
    for stage in plan.stages:
        if runs and stage.action == "full" and not stage.opens:
            runs[-1] = (runs[-1][0], stage.index)
        else:
            runs.append((stage.index, stage.index))
    return runs


def build_problem(stock: Sequence[Window], samples: Sequence[Sample], times: Sequence[StageTime]) -> Problem:
    """The problem whose options are the runs of `samples`, and every stage left as it is, by the `stock` step. `times`
    are those of the stages. Where two samples have the same run, the first counts."""
    count = len(times)
    left = _Run(stock, count)
    runs = [left, *(_Run(s.windows, count) for s in samples)]
    options = {(i, i, "save"): _option("save", i, i, left, left, times) for i in range(count)}
    for sample, run in zip(samples, runs[1:], strict=True):
        for first, last in runs_of(sample.plan):
            action = sample.plan.stages[first].action
            options.setdefault((first, last, action), _option(action, first, last, run, left, times))
    return Problem(
        fixed_bytes=max(r.base for r in runs),
        loss_bytes=max(r.loss for r in runs),
        options=tuple(options[key] for key in sorted(options)),
    )


def _option(action: str, first: int, last: int, run: _Run, stock: _Run, times: Sequence[StageTime]) -> Option:
    stages = range(first, last + 1)
    before = run.before[first]
    recomputed = sum(max(run.backward_flops[i] - stock.backward_flops[i], 0) for i in stages)
    computed = sum(run.computed[i] for i in stages)
    added = 0.0
    if action != "save":
        added += sum(times[i].cheap_ms for i in stages)
        added += sum(times[i].dear_ms for i in stages) * recomputed / computed if computed else 0.0
    return Option(
        first=first,
        last=last,
        action=action,
        kept_bytes=run.before[last + 1] - before,
        forward_bytes=max(run.forward[i] for i in stages) - before,
        backward_bytes=max(run.backward[i] for i in stages) - before,
        added_ms=added,
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
    dear = sum(again[i] / computed[i] * times[i].dear_ms for i in computed if computed[i])
    return (added + dear) / step_ms(times)
