"""The fixed modes: one action for every selected stage, and where their segments begin and end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from yolo_ckpt.plan import Plan, StagePlan

NOT_NEEDED = "not needed for the budget"  # why a stage that could be planned is left as it is

FIRST = 3  # convolving stages that are recomputed together at the start


@dataclass(frozen=True, kw_only=True)
class StageFacts:
    """What planning knows of a stage.

    Attributes:
        index: Position in the model.
        kind: Class name.
        part: `backbone`, `neck` or `head`.
        convolves: It holds convolutions.
        is_conv_block: It is nothing but a convolution, a normalisation and an activation.
        skips: Another stage than the next reads its output.
        obstacle: Why the engine cannot handle it; empty when it can.
    """

    index: int
    kind: str
    part: str
    convolves: bool
    is_conv_block: bool
    skips: bool = False
    obstacle: str = ""


def fixed_plan(
    stages: Sequence[StageFacts],
    action: str,
    selected: Iterable[int],
    *,
    ckpt: str,
    imgsz: int,
    batch: int,
    joined: Collection[int] | None = None,
) -> Plan:
    """A plan with `action` for the selected stages and `save` for the others.

    Where segments end is said by `joined` (stages that go on with the segment of the stage before), or else by rule.
    They follow two findings. The first stages, whose maps are the largest, are best recomputed together, up to where
    another part of the model reads one. A later stage that is one convolution block is best recomputed with the stage
    that follows it, except where that is the head.
    """
    selected = set(selected)
    reasons = [s.obstacle or ("" if s.index in selected else "not in ckpt_stages") for s in stages]
    actions = ["save" if r else action for r in reasons]
    joined = joined_by_rule(stages) if joined is None else joined
    return plan_of(stages, actions, reasons, joined, ckpt=ckpt, imgsz=imgsz, batch=batch)


def plan_of(
    stages: Sequence[StageFacts],
    actions: Sequence[str],
    reasons: Sequence[str],
    joined: Collection[int],
    *,
    ckpt: str,
    imgsz: int,
    batch: int,
) -> Plan:
    """A plan with an action for each stage, and for those that are left as they are the reason. Stages in `joined` go
    on with the segment of the stage before, where both are recomputed in full.
    """
    joined = set(joined) & {i for i in range(1, len(stages)) if actions[i - 1] == actions[i] == "full"}
    return Plan(
        ckpt=ckpt,
        imgsz=imgsz,
        batch=batch,
        stages=tuple(
            StagePlan(
                index=stage.index,
                kind=stage.kind,
                action=action,
                opens=stage.index not in joined,
                closes=stage.index + 1 not in joined,
                reason=reason if action == "save" else "",
            )
            for stage, action, reason in zip(stages, actions, reasons, strict=True)
        ),
    )


def is_tightest(plan: Plan) -> bool:
    """True when every stage that may be planned is recomputed in full."""
    return all(s.action == "full" or (s.action == "save" and s.reason != NOT_NEEDED) for s in plan.stages)


def joined_by_rule(stages: Sequence[StageFacts]) -> set[int]:
    """Indices of stages that go on with the segment of the stage before them."""
    first, last = _first_length(stages), len(stages) - 1
    joined = set(range(1, first))
    for before, stage in pairwise(stages[first:last]):
        if before.index not in joined and before.is_conv_block and stage.convolves:
            joined.add(stage.index)
    return joined


def joins_to_try(stages: Sequence[StageFacts]) -> list[set[int]]:
    """What else `joined` can be in search of a better plan: every stage alone, the first two together and blocks with
    what follows, and blocks with what they follow."""
    inner = [s.index for s in stages[1:-1]]
    with_next = {i for i in inner if stages[i - 1].is_conv_block and stages[i].convolves}
    with_previous = {i for i in inner if stages[i].is_conv_block and not stages[i - 1].skips}
    return [set(), {1} | (with_next - {2}), {1} | (with_previous - {2})]


def _first_length(stages: Sequence[StageFacts]) -> int:
    """Stages in the first segment: `FIRST` that convolve (in a short model two), and a convolution block behind them,
    but none whose output is read elsewhere, and not the head."""
    most = FIRST if len(stages) >= 4 * FIRST else 2  # all of a segment is recomputed at once: it may not be the model
    length = convolving = 0
    for stage in stages[:-1]:
        goes_on = convolving < most or (convolving == most == FIRST and stage.is_conv_block)
        if stage.skips or not goes_on:
            break
        length, convolving = length + 1, convolving + stage.convolves
    return length
