"""The hooks that swap what autograd saves for handles, and evaluate these when backward asks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.errors import RematError
from yolo_ckpt.remat import registry
from yolo_ckpt.remat.registry import costs_as_much, is_plain, lookup, record, root, settle, state
from yolo_ckpt.remat.values import Ref, Value, detached, evaluate, geometry_of, held_roots

MAX_DEPTH = 32  # cheap operators replayed for one saved tensor; past that the tensor is kept
CAST_MIN_BYTES = 1 << 19  # half-precision copies of smaller parameters are kept: there are many, and they hold little


class Handle:
    """Stands in the autograd graph for a saved tensor that can be had again."""

    __slots__ = ("geometry", "value")

    def __init__(self, value: Value, tensor: Tensor) -> None:
        self.value = value
        geometry = geometry_of(tensor)
        self.geometry = None if geometry == value.geometry else geometry
        value.waiting += 1
        for end in value.own_ends():
            end.uses += 1
            end.left += 1

    def tensor(self) -> Tensor:
        """The saved tensor, evaluated when it is not held."""
        value = self.value
        if value.tensor is not None and value.replay is None:
            out = value.held()
        elif torch.is_grad_enabled() or torch._C._is_any_autocast_enabled():
            with torch.no_grad(), torch._C._DisableAutocast():  # rule 5 of values.py
                out = self._evaluated()
        else:
            out = self._evaluated()
        return out if self.geometry is None else out.as_strided(*self.geometry)

    def _evaluated(self) -> Tensor:
        value = self.value
        out = evaluate(value)
        value.answered(out)
        for end in value.own_ends():
            end.asked()
        return out


class Kept:
    """Stands in the autograd graph for a saved tensor that is kept as without a plan."""

    __slots__ = ("held", "value", "version")

    def __init__(self, tensor: Tensor, value: Value | None = None) -> None:
        self.held = tensor
        self.value = value  # the root of this storage, alive as long as somebody needs the storage
        self.version = tensor._version  # autograd refuses to save inference tensors, so there is one

    def tensor(self) -> Tensor:
        """The kept tensor. Autograd leaves the version check to hooks, so it is made here."""
        if self.held._version != self.version:
            raise RematError(
                f"a tensor of shape {tuple(self.held.shape)} that the backward pass needs was changed in place "
                f"(version {self.held._version}, saved at {self.version}); change a copy instead"
            )
        return self.held


def pack(tensor: Tensor) -> Handle | Kept:
    """The hook that autograd calls with each tensor it wants to save."""
    if tensor.is_leaf and tensor.requires_grad:
        return Kept(tensor)  # a parameter: alive in any case
    value = lookup(tensor)
    if value is None and state.casting is not None and tensor.grad_fn is not None:
        value = _cast_of(state.casting, tensor)
    if value is None and is_plain(tensor) and tensor.untyped_storage().nbytes() >= registry.small_bytes:
        value = root(tensor, tensor)
    if value is None:
        return Kept(tensor)
    if value.tensor is not None and value.replay is None:
        value.pinned = True
        return Kept(tensor, value)  # watches the counter of this very tensor
    if value.pinned or value.tensor is not None:
        value.pinned = True
        return Handle(value, tensor)
    roots = [r for r in held_roots(value) if not r.pinned and not r.redo]  # what is recomputed anyway costs nothing
    if value.depth > MAX_DEPTH or (roots and costs_as_much(roots, value)):
        settle(tensor, value)  # holding what it comes from would cost as much as holding it
        return Handle(value, tensor)
    for below in roots:
        below.pinned = True
    value.pinned = True
    return Handle(value, tensor)


def _cast_of(parameter: Tensor, tensor: Tensor) -> Value | None:
    """The recipe of autocast's copy of `parameter`, where `tensor` is that copy and worth it: the parameter is alive
    anyway."""
    node: Any = tensor.grad_fn
    source = node.next_functions[0][0] if node.name() == "ToCopyBackward0" else None
    if getattr(source, "variable", None) is not parameter or tensor.nbytes < CAST_MIN_BYTES:
        return None
    below = lookup(parameter) or root(parameter, detached(parameter))
    below.pinned = True
    record(tensor, _cast, (Ref(below, geometry_of(parameter)), tensor.dtype))
    return lookup(tensor)


def _cast(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return parameter.to(dtype)


def unpack(packed: Handle | Kept) -> Tensor:
    """The hook that autograd calls when the backward pass needs a saved tensor."""
    return packed.tensor()


def ours_on_top() -> bool:
    """False inside somebody else's saved-tensor hooks (a nested torch.utils.checkpoint, save_on_cpu): what they see
    must be what they see without a plan."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and top[0] is pack
