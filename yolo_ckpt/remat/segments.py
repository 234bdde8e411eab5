"""Running planned stages: segments, and what is held where they end.

A segment is a run of stages. Where it closes:

selective  what autograd saved of dear values stays held
full       only those stay that its outputs are made of by cheap operators (the last convolution's output, as a rule),
           or the output itself where that is smaller; the others are let go and recomputed once, when backward first
           needs one of them

Letting go is never wrong, only more or less to recompute: a value needed later is evaluated through whatever is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_leaves

from yolo_ckpt.remat.recorder import Recorder, may_record, recording
from yolo_ckpt.remat.registry import forget, lookup, settle, state
from yolo_ckpt.remat.values import Value, held_roots

_recorder = Recorder()  # type: ignore[no-untyped-call]


class Segment(NamedTuple):
    """A stage's part in the plan: its action, and whether it opens and closes a segment."""

    action: str  # "selective" or "full"
    opens: bool = True
    closes: bool = True


def run(segment: Segment, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a stage's forward under its plan. Without gradients, or inside another planned stage, it just runs."""
    if not may_record():
        return forward(*args, **kwargs)
    if segment.opens:
        state.dear = []
    state.redo = segment.action == "full"
    try:
        with recording(_recorder):
            out = forward(*args, **kwargs)
        if segment.closes:
            _close(state.dear, out)
    except BaseException:
        state.dear = []
        raise
    if segment.closes:
        state.dear = []
    return out


def _close(dear: list[Value], out: Any) -> None:
    """Decide what stays held where a segment ends: the dear values that its outputs are made of, or the outputs."""
    kept: set[int] = set()
    for leaf in tree_leaves(out):
        value = lookup(leaf) if isinstance(leaf, Tensor) else None
        if value is None or value.tensor is not None:
            continue
        roots = held_roots(value)
        ends = [r for r in roots if r.replay is not None and id(r) not in kept]
        no_gain = not any(r.pinned for r in roots) and sum(r.nbytes for r in roots) >= value.nbytes
        if (roots and no_gain) or sum(r.nbytes for r in ends) > value.nbytes:
            _hold_output(leaf, value)
        else:
            kept.update(id(r) for r in ends)
    for value in dear:
        if id(value) in kept:
            value.drop_recipe()
        else:
            value.let_go()


def _hold_output(leaf: Tensor, value: Value) -> None:
    """Let later stages start from the output itself, not from what it was made of."""
    if value.used or value.pinned:
        settle(leaf, value)
    else:
        forget(leaf.untyped_storage()._cdata)
