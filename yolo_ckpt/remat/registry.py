"""The registry: which value a storage holds.

Values are found by storage, because autograd saves views and detached copies of the tensors that operators return.

1. `_entries` maps a storage to its value only while that storage lives: a weak reference on the storage takes the entry
   away, so a reused address is never mistaken.
2. An entry holds a cheap value strongly (the value does not hold the storage). It holds roots and dear values weakly
   (they do hold the storage; a strong entry would never let go).
3. An entry counts only while the storage's version is the one recorded; after an unseen in-place change the storage
   is simply unknown, and what autograd saves from it is kept.
4. A recomputable dear value is let go as soon as no living storage is made of it by cheap operators alone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.remat.values import NO_KWARGS, Ref, Value, detached, geometry_of, refs_in

small_bytes = 1 << 16  # storages below this are kept: they are not worth the time of a recipe


class _StorageRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a storage that knows the key it is filed under."""

    __slots__ = ("key",)
    key: int


_entries: dict[int, tuple[_StorageRef, Any, int]] = {}


def _forget(ref: _StorageRef) -> None:
    forget(ref.key)


def forget(key: int) -> None:
    """Take the storage's entry away; dear values that only it needed are let go (rule 4)."""
    entry = _entries.pop(key, None)
    if entry is not None and type(entry[1]) is Value:
        for end in entry[1].ends:
            end.live -= 1
            if not end.live:
                end.let_go()


class _State(threading.local):
    """What is being recorded on this thread."""

    def __init__(self) -> None:
        self.active = False
        self.redo = False  # dear operators get a recipe
        self.dear: list[Value] = []  # dear values of the open segment, held until it closes


state = _State()


def file(tensor: Tensor, value: Value, version: int, *, weak: bool) -> None:
    """File `value` under the storage of `tensor` (rules 1 to 3)."""
    _file(tensor.untyped_storage(), value, version, weak)


def _file(storage: torch.UntypedStorage, value: Value, version: int, weak: bool) -> None:
    ref = _StorageRef(storage, _forget)
    key = ref.key = storage._cdata
    if key in _entries:
        forget(key)
    for end in () if weak else value.ends:
        end.live += 1
    _entries[key] = (ref, weakref.ref(value) if weak else value, version)


def lookup(tensor: Tensor) -> Value | None:
    """The value in `tensor`'s storage as it is now, or None when it is not known."""
    if tensor.is_inference():
        return None
    entry = _entries.get(tensor.untyped_storage()._cdata)
    if entry is None or entry[2] != tensor._version:
        return None
    value = entry[1]
    return value() if type(value) is weakref.ref else value


def refer(tensor: Tensor) -> Ref:
    """A use of `tensor` in a recipe; a tensor that is not known becomes a root."""
    value = lookup(tensor)
    if value is None:
        if tensor.is_inference():  # has no version counter: only a copy is safe from changes
            tensor = tensor.clone()
        value = root(tensor, detached(tensor))
    return Ref(value, geometry_of(tensor))


def root(tensor: Tensor, held: Tensor) -> Value:
    """A new value that holds the storage of `tensor` through `held`."""
    storage = tensor.untyped_storage()
    value = Value(tensor, storage.nbytes())
    value.hold(held)
    _file(storage, value, value.version, True)
    return value


def freeze(arg: Any) -> Any:
    """An operator's argument with every tensor replaced by its `Ref`."""
    if isinstance(arg, Tensor):
        return refer(arg)
    return [freeze(a) for a in arg] if isinstance(arg, (list, tuple)) else arg


def record(
    out: Tensor,
    replay: Callable[..., Any],
    args: Any,
    kwargs: Any = NO_KWARGS,
    index: int | None = None,
    sure: bool = False,
) -> None:
    """Record `out` as output `index` of `replay(*args)`: a cheap value. `args` hold `Ref`s already. `sure`: what it is
    made of will be saved anyway."""
    storage = out.untyped_storage()
    nbytes = storage.nbytes()
    if nbytes < small_bytes or out.storage_offset() or out.dtype.is_complex:
        return
    value = Value(out, nbytes)
    value.recipe(replay, args, kwargs, index)
    if not sure and _no_gain(value):
        return
    _file(storage, value, out._version, False)


def _no_gain(value: Value) -> bool:
    """True when holding what `value` is directly made of, which nobody needs yet, costs as much as holding it."""
    below = {id(ref.value): ref.value for ref in refs_in(value.args)}.values()
    if any(v.tensor is None or v.pinned or v.redo for v in below):
        return False
    return sum(v.nbytes for v in below) >= value.nbytes


def record_dear(out: Tensor, recipe: Callable[[], tuple[Any, ...]]) -> None:
    """Where dear values may be recomputed: record `out` as output of `recipe()`, which is (replay, args[, kwargs,
    index]). Elsewhere a dear output needs no record: it becomes a root when somebody saves or uses it."""
    if not state.redo or out.storage_offset() or out.untyped_storage().nbytes() < small_bytes:
        return
    value = root(out, detached(out))
    value.recipe(*recipe())
    value.dear = value.redo = True
    state.dear.append(value)


def settle(tensor: Tensor, value: Value) -> None:
    """Hold `value` itself, of which `tensor` is a view, instead of its recipe."""
    forget(tensor.untyped_storage()._cdata)
    value.hold(detached(tensor).as_strided(*value.geometry))
    value.drop_recipe()
    value.pinned = True
    file(tensor, value, value.version, weak=True)
