"""A plan in three lines of log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from yolo_ckpt.plan import Plan

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


def ranges(indices: Iterable[int]) -> str:
    """`[0, 1, 2, 5]` as `0-2, 5`."""
    runs = [[v for _, v in group] for _, group in groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
