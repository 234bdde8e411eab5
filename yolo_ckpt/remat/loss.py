"""The loss as a planned stage.

A loss is about a thousand small operators: writing them all down would cost more than it saves. What it keeps that is
large are copies of the predictions in another order or precision, and these can be told from the autograd graph when
they are saved: a copy whose nodes lead back to a prediction through one permutation is a recipe of that prediction,
which the caller holds anyway.

A loss may also run small networks on many rows (the flow model of YOLO26 pose, on every keypoint of every positive
anchor). Each of them is a segment of its own, under the loss's action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from yolo_ckpt.remat.hooks import Handle, Kept, pack, unpack
from yolo_ckpt.remat.recorder import may_record
from yolo_ckpt.remat.registry import is_worth, lend, record, state
from yolo_ckpt.remat.segments import Segment, run
from yolo_ckpt.remat.values import Ref, Value, geometry_of

_PERMUTE, _CLONE, _CAST = "PermuteBackward0", "CloneBackward0", "ToCopyBackward0"


class _Lent(NamedTuple):
    """A prediction that the caller holds, and the output of the autograd node that it is."""

    output: int
    tensor: Tensor
    value: Value


def run_loss(loss: Callable[..., Any], args: Any, kwargs: Any, action: str = "selective") -> Any:
    """Run a loss as a stage: what autograd saves of copies of its predictions are recipes, and networks in it are
    segments under `action`."""
    if not may_record():
        return loss(*args, **kwargs)
    lent = _lend(args, kwargs)

    def pack_loss(tensor: Tensor) -> Handle | Kept:
        if tensor.grad_fn is not None and is_worth(tensor):
            _record_copy(tensor, lent)
        return pack(tensor)

    torch._C._autograd._push_saved_tensors_default_hooks(pack_loss, unpack)
    state.active, state.loss = True, action
    try:
        return loss(*args, **kwargs)
    finally:
        state.active, state.loss = False, ""
        torch._C._autograd._pop_saved_tensors_default_hooks()
        for entry in (e for entries in lent.values() for e in entries):
            entry.value.lent = False
        lent.clear()  # the graph holds the hook, and so would hold the predictions


def run_network(forward: Callable[..., Any], x: Tensor) -> Any:
    """Run the forward of a network inside a loss as a segment."""
    action = state.loss
    state.active, state.loss = False, ""
    try:
        return run(Segment(action), forward, (x,), {})
    finally:
        state.active, state.loss = True, action


def _lend(args: Any, kwargs: Any) -> dict[Any, list[_Lent]]:
    """The predictions among the arguments, by autograd node."""
    lent: dict[Any, list[_Lent]] = {}
    for leaf in tree_leaves((args, kwargs)):
        value = lend(leaf) if isinstance(leaf, Tensor) and leaf.grad_fn is not None else None
        if value is not None:
            lent.setdefault(leaf.grad_fn, []).append(_Lent(leaf.output_nr, leaf, value))
    return lent


def _record_copy(tensor: Tensor, lent: dict[Any, list[_Lent]]) -> None:
    """Record `tensor` when it is a copy of something lent: one permutation and one cast at most, so that there is only
    one way to come from the one to the other."""
    node: Any = tensor.grad_fn
    output, order, names = tensor.output_nr, None, []
    while node is not None and node not in lent:
        name = node.name()
        if name in names or name not in (_PERMUTE, _CLONE, _CAST):
            return
        if name == _PERMUTE:
            order = [d if d < len(node._saved_dims) else d - 2**64 for d in node._saved_dims]
        names.append(name)
        node, output = node.next_functions[0]
    source = next((e for e in lent.get(node, ()) if e.output == output), None)
    if source is None or tensor.device != source.tensor.device or not {_CLONE, _CAST} & set(names):
        return
    if tensor.is_contiguous():
        record(tensor, _copied, (Ref(source.value, geometry_of(source.tensor)), order, tensor.dtype))


def _copied(prediction: Tensor, order: list[int] | None, dtype: torch.dtype) -> Tensor:
    return (prediction if order is None else prediction.permute(order)).to(dtype).contiguous()
