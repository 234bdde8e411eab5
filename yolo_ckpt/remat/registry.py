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
from collections.abc import Callable, Collection
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
        self.loss = ""  # the action of the loss that is running: "selective" or "full"
        self.casting: Tensor | None = None  # the parameter that autocast casts for the call that is going on


state = _State()


def file(tensor: Tensor, value: Value, version: int, *, weak: bool) -> None:
    """File `value` under the storage of `tensor` (rules 1 to 3)."""
    _file(tensor.untyped_storage(), value, version, weak)


def _file(storage: torch.UntypedStorage, value: Value, version: int, weak: bool) -> None:
    ref = _StorageRef(storage, _forget)
    key = ref.key = storage._cdata
    for end in () if weak else value.ends:
        end.live += 1
    if key in _entries:
        forget(key)  # after the count above: what both are made of must not be let go in between
    _entries[key] = (ref, weakref.ref(value) if weak else value, version)


def lookup(tensor: Tensor) -> Value | None:
    """The value in `tensor`'s storage as it is now, or None when it is not known."""
    if not is_plain(tensor):
        return None
    key = tensor.untyped_storage()._cdata
    entry = _entries.get(key)
    if entry is None:
        return None
    if entry[2] != tensor._version:
        forget(key)  # changed unseen: a counter that moves on, or another one, must not match by chance later
        return None
    value = entry[1]() if type(entry[1]) is weakref.ref else entry[1]
    return value if value is not None and value.dtype is tensor.dtype else None


def is_plain(tensor: Tensor) -> bool:
    """True when a tensor is fully told by its storage, size, stride and offset, and counts its in-place changes."""
    return (
        tensor.layout is torch.strided
        and not tensor.dtype.is_complex
        and not tensor.is_neg()
        and not tensor.is_inference()
    )


def is_worth(tensor: Tensor) -> bool:
    """True when a recipe for `tensor`, which an operator has just made, can be worth its time."""
    return tensor.untyped_storage().nbytes() >= small_bytes and not tensor.storage_offset()


def refer(tensor: Tensor) -> Ref:
    """A use of `tensor` in a recipe; a tensor that is not known becomes a root."""
    value = lookup(tensor)
    if value is None:
        value = root(tensor, detached(tensor))
    elif _is_other_root(tensor, value):
        value = Value(tensor, tensor.nbytes)
        value.hold(detached(tensor))
    return Ref(value, geometry_of(tensor))


def _is_other_root(tensor: Tensor, value: Value) -> bool:
    """True for a tensor that shares a root's storage but not its version counter (flat parameters, unsafe_chunk)."""
    is_root = value.tensor is not None and value.replay is None
    return is_root and tensor._base is None and geometry_of(tensor) != value.geometry


def root(tensor: Tensor, held: Tensor) -> Value:
    """A new value that holds the storage of `tensor` through `held`."""
    storage = tensor.untyped_storage()
    value = Value(tensor, storage.nbytes())
    value.hold(held)
    _file(storage, value, value.version, True)
    return value


def lend(tensor: Tensor) -> Value | None:
    """Make a root of a tensor that the caller holds for a while longer: where it would cost as much to hold as what is
    made of it, it is the one that is held. The entry lasts as long as the returned value is held."""
    if not is_plain(tensor) or tensor.untyped_storage().nbytes() < small_bytes:
        return None
    value = lookup(tensor)
    if value is None:
        value = root(tensor, detached(tensor))
    value.lent = True
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
    if not is_worth(out) or not is_plain(out):
        return
    storage = out.untyped_storage()
    value = Value(out, storage.nbytes())
    value.recipe(replay, args, kwargs, index)
    if not sure and _no_gain(value):
        return
    _file(storage, value, out._version, False)


def _no_gain(value: Value) -> bool:
    """True when holding what `value` is directly made of, which nobody needs yet, costs as much as holding it."""
    below = {id(ref.value): ref.value for ref in refs_in(value.args)}.values()
    if any(v.tensor is None or v.pinned or v.redo for v in below):
        return False
    return costs_as_much(below, value)


def costs_as_much(roots: Collection[Value], value: Value) -> bool:
    """True when holding `roots` is no better than holding `value`."""
    price = sum(r.nbytes for r in roots)
    return price > value.nbytes or (price == value.nbytes and not all(r.lent for r in roots))


def record_dear(out: Tensor, recipe: Callable[[], tuple[Any, ...]]) -> None:
    """Where dear values may be recomputed: record `out` as output of `recipe()`, which is (replay, args[, kwargs,
    index]). Elsewhere a dear output needs no record: it becomes a root when somebody saves or uses it."""
    if not state.redo or not is_worth(out) or not is_plain(out):
        return
    value = root(out, detached(out))
    value.dear = True
    value.recipe(*recipe())
    value.redo = True
    state.dear.append(value)


def settle(tensor: Tensor, value: Value) -> None:
    """Hold `value` itself, of which `tensor` is a view, instead of its recipe."""
    forget(tensor.untyped_storage()._cdata)
    value.hold(detached(tensor).as_strided(*value.geometry))
    value.drop_recipe()
    value.pinned = True
    file(tensor, value, value.version, weak=True)
