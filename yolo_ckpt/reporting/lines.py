"""A plan in three lines of log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.steps import Step
from yolo_ckpt.units import format_bytes

_DONE = {
    "selective": "convolution outputs are kept, everything between them is recomputed",
    "full": "the ends of segments are kept, convolutions between them are recomputed too",
}


def plan_lines(plan: Plan) -> list[str]:
    """What is planned, for which stages, and what was left out and why."""
    actions = sorted({s.action for s in plan.planned})
    done = "; ".join(f"{a}: {_DONE[a]}" for a in actions) or "nothing is recomputed"
    segments = sum(s.closes for s in plan.planned)
    left: dict[str, list[int]] = {}
    for stage in plan.stages:
        if stage.action == "save":
            left.setdefault(stage.reason or "ckpt=off", []).append(stage.index)
    reasons = "; ".join(f"{ranges(indices)} ({reason})" for reason, indices in left.items()) or "nothing"
    return [
        f"ckpt={plan.ckpt} at imgsz={plan.imgsz}, batch={plan.batch}: {done}",
        f"stages {ranges(s.index for s in plan.planned) or 'none'} of {len(plan.stages)}, in {segments} segments",
        f"left as it is: {reasons}",
    ]


def auto_line(plan: Plan, budget_bytes: int, stock_bytes: int) -> str:
    """What the plan promises for the budget."""
    assert plan.peak_bytes is not None
    forecast = f"forecast peak {format_bytes(plan.peak_bytes)} of {format_bytes(budget_bytes)}"
    if not plan.planned:
        return f"{forecast}: fits without a plan, training is stock"
    how = "by measured times" if plan.added_measured else "an estimate"
    added = "" if plan.added_share is None else f", about {plan.added_share:.0%} more time a step ({how})"
    return f"{forecast}, stock would need {format_bytes(stock_bytes)}{added}"


def forecast_line(forecast_bytes: int, measured_bytes: int, later_bytes: int = 0) -> tuple[str, bool]:
    """Forecast and measurement in one line, and whether more was needed than was forecast, by more than 5 %.
    `later_bytes` are those of the optimizer's state where it has not made a step yet."""
    off = (measured_bytes + later_bytes) / forecast_bytes - 1
    later = f" and {format_bytes(later_bytes)} from the optimizer's first step on" if later_bytes else ""
    sizes = f"{format_bytes(measured_bytes)}{later}, forecast {format_bytes(forecast_bytes)}"
    what = "; plan with a smaller ckpt_budget= where that is close to what there is" if off > 0.05 else ""
    return f"peak of the first epoch {sizes} ({off:+.1%}){what}", off > 0.05


def loss_line(step: Step, objects: int) -> str | None:
    """A warning where the loss, and not the activations, has the peak of a planned step: no plan can lower it."""
    windows = step.windows
    last = max(w.stage for w in windows)
    loss = max((w.peak_bytes for w in windows if w.stage == last), default=0)
    others = max(w.peak_bytes for w in windows if w.stage != last)
    if loss <= others:
        return None
    return (
        f"the loss has the peak: {format_bytes(loss)} with {objects} objects in an image, the network "
        f"{format_bytes(others)}; fewer images in a step help, a tighter plan does not"
    )


class _Rectangles(Protocol):
    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def shapes(self) -> int: ...
    @property
    def share(self) -> float: ...


def rect_line(
    found: _Rectangles, *, imgsz: int, rect: bool, peak_bytes: int | None, other_peak_bytes: int | None
) -> str:
    """What square training batches would have cost (with `rect`), or what rectangular ones would save."""
    largest = f"{found.width} x {found.height}"
    forecast = (
        f", forecast {format_bytes(other_peak_bytes)} instead of {format_bytes(peak_bytes)}"
        if peak_bytes is not None and other_peak_bytes is not None
        else ""
    )
    without = "mosaic" if found.shapes == 1 else "mosaic and shuffling"
    if not rect:
        return (
            f"images far from square in {imgsz} x {imgsz} batches: rect=True ({largest} at most) would need "
            f"{found.share:.0%} of the pixels{forecast}; the host then trains without {without}"
        )
    many = f", {found.shapes} shapes, this is the largest" if found.shapes > 1 else ""
    return (
        f"rect=True: {largest} batches{many}; square training would need {1 / found.share:.1f} x the pixels{forecast}; "
        f"the host trains without {without}"
    )


def ranges(indices: Iterable[int]) -> str:
    """`[0, 1, 2, 5]` as `0-2, 5`."""
    runs = [[v for _, v in group] for _, group in groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
