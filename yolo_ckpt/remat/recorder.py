"""The recorder: which value a storage holds, and the hooks that swap saved tensors for handles.

Values are found by storage, because autograd saves views and detached copies of the tensors that operators return.

1. `_entries` maps a storage to its value only while that storage lives: a weak reference on the storage takes the entry
   away, so a reused address is never mistaken.
2. An entry holds a cheap value strongly (the value does not hold the storage). It holds roots and dear values weakly
   (they do hold the storage; a strong entry would never let go).
3. An entry counts only while the storage's version is the one recorded; after an unseen in-place change the storage
   is simply unknown, and what autograd saves from it is kept.
4. A recomputable dear value is let go as soon as no living storage is made of it by cheap operators alone.
5. Recording is on only inside `recording()`, on the thread that entered it.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from yolo_ckpt.errors import RematError
from yolo_ckpt.remat import pool
from yolo_ckpt.remat.normalize import norm_of_call
from yolo_ckpt.remat.operators import Kind, draws_random, is_dear, kind_of, written
from yolo_ckpt.remat.values import NO_KWARGS, Ref, Value, detached, evaluate, geometry_of, held_roots, refs_in

small_bytes = 1 << 16  # storages below this are kept: they are not worth the time of a recipe
MAX_DEPTH = 32  # cheap operators replayed for one saved tensor; past that the tensor is kept


class _StorageRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a storage that knows the key it is filed under."""

    __slots__ = ("key",)


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
        value = _root(tensor, detached(tensor))
    return Ref(value, geometry_of(tensor))


def _root(tensor: Tensor, held: Tensor) -> Value:
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
    """Record `out` as output `index` of `replay(*args)`: a cheap value. `args` hold `Ref`s already. `sure`: what it is made
    of will be saved anyway."""
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
    """True when holding what `value` is directly made of, which nobody needs so far, would cost as much as holding it."""
    below = {id(ref.value): ref.value for ref in refs_in(value.args)}.values()
    if any(v.tensor is None or v.pinned or v.redo for v in below):
        return False
    return sum(v.nbytes for v in below) >= value.nbytes


def record_dear(out: Tensor, recipe: Callable[[], tuple[Any, ...]]) -> None:
    """Where dear values may be recomputed: record `out` as output of `recipe()`, which is (replay, args[, kwargs, index]).
    Elsewhere a dear output needs no record: it becomes a root when somebody saves or uses it."""
    if not state.redo or out.storage_offset() or out.untyped_storage().nbytes() < small_bytes:
        return
    value = _root(out, detached(out))
    value.recipe(*recipe())
    value.dear = value.redo = True
    state.dear.append(value)


class Handle:
    """Stands in the autograd graph for a saved tensor that can be had again."""

    __slots__ = ("geometry", "value")

    def __init__(self, value: Value, tensor: Tensor) -> None:
        self.value = value
        geometry = geometry_of(tensor)
        self.geometry = None if geometry == value.geometry else geometry
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
        out = evaluate(self.value)
        for end in self.value.own_ends():
            end.asked()
        return out


class Kept:
    """Stands in the autograd graph for a saved tensor that is kept as without a plan."""

    __slots__ = ("held", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.held = tensor
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
    value = lookup(tensor)
    if value is None and tensor.untyped_storage().nbytes() >= small_bytes:
        value = _root(tensor, tensor)
    if value is None or value.dtype is not tensor.dtype:
        return Kept(tensor)
    if value.pinned or value.tensor is not None:
        value.pinned = True
        return Handle(value, tensor)
    roots = [r for r in held_roots(value) if not r.pinned and not r.redo]  # what is recomputed anyway costs nothing
    if value.depth > MAX_DEPTH or (roots and sum(r.nbytes for r in roots) >= value.nbytes):
        settle(tensor, value)  # holding what it comes from would cost as much as holding it
        return Handle(value, tensor)
    for root in roots:
        root.pinned = True
    value.pinned = True
    return Handle(value, tensor)


def settle(tensor: Tensor, value: Value) -> None:
    """Hold `value` itself, of which `tensor` is a view, instead of its recipe."""
    forget(tensor.untyped_storage()._cdata)
    value.hold(detached(tensor).as_strided(*value.geometry))
    value.drop_recipe()
    value.pinned = True
    file(tensor, value, value.version, weak=True)


def unpack(packed: Handle | Kept) -> Tensor:
    """The hook that autograd calls when the backward pass needs a saved tensor."""
    return packed.tensor()


class Recorder(TorchDispatchMode):
    """Writes operators down as recipes while a planned stage runs forward."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = kind_of(func)
        kwargs = kwargs or NO_KWARGS
        if kind is Kind.VIEW or kind is Kind.KEEP:
            return func(*args, **kwargs)
        if kind is Kind.WRITE:
            return _write(func, args, kwargs)
        out = func(*args, **kwargs)
        if kind is Kind.NORM:
            norm = norm_of_call(func, args, out)
            if norm is not None:
                record(out[0], norm.normalize, (refer(args[0]),), sure=True)
        elif kind is Kind.POOL and pool.fits(args[0]):
            indices = refer(pool.narrow(out[1]))
            record(out[0], pool.pooled, (refer(args[0]), indices))
            record(out[1], pool.widened, (indices,))
        elif is_dear(kind, func, args):
            if not draws_random(func, args, kwargs):
                for index, leaf in _outputs(out):
                    record_dear(leaf, lambda i=index: (func, tuple([freeze(a) for a in args]), kwargs, i))
        else:
            frozen = tuple([freeze(a) for a in args])
            for index, leaf in _outputs(out):
                record(leaf, func, frozen, kwargs, index)
        return out


def _outputs(out: Any) -> list[tuple[int | None, Tensor]]:
    if isinstance(out, Tensor):
        return [(None, out)]
    return [(i, t) for i, t in enumerate(out) if isinstance(t, Tensor)] if isinstance(out, (tuple, list)) else []


def _write(func: Any, args: Any, kwargs: Any) -> Any:
    """An in-place operator. A cheap value becomes the recipe of its new content; a held value that a recipe or a
    handle relies on is copied first, so that its old content stays available."""
    changed = []
    for tensor in written(func, args, kwargs):
        value = lookup(tensor)
        if value is None:
            continue
        if value.tensor is not None:
            if value.used or value.pinned:
                value.hold(value.held().clone())
            forget(tensor.untyped_storage()._cdata)
        else:
            changed.append((tensor, value))
    frozen = tuple([freeze(a) for a in args]) if changed else ()
    out = func(*args, **kwargs)
    for tensor, old in changed:
        new = Value(tensor, old.nbytes)
        new.geometry, new.dtype = old.geometry, old.dtype
        new.recipe(_replay_write, [Ref(old, old.geometry), geometry_of(tensor), func, list(frozen)], kwargs)
        file(tensor, new, tensor._version + 1, weak=False)  # autograd moves the counter after this returns
    return out


def _replay_write(base: Tensor, geometry: Any, func: Any, args: list[Any], **kwargs: Any) -> Tensor:
    """The content of a storage after `func` changed a view of it in place."""
    base = base.clone()
    func(base.as_strided(*geometry), *args[1:], **kwargs)
    return base


def ours_on_top() -> bool:
    """False inside somebody else's saved-tensor hooks (a nested torch.utils.checkpoint, save_on_cpu): what they see must
    be what they see without a plan."""
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and top[0] is pack


def pause() -> Recorder | None:
    """Take the recorder off the mode stack for a moment; None when another mode is on top of it."""
    depth = torch._C._len_torch_dispatch_stack()
    if not depth or type(torch._C._get_dispatch_stack_at(depth - 1)) is not Recorder:
        return None
    return torch._C._pop_torch_dispatch_stack(None)  # type: ignore[no-any-return]


def resume(mode: Recorder | None) -> None:
    """Put back what `pause` took off."""
    if mode is not None:
        torch._C._push_on_torch_dispatch_stack(mode)


class unrecorded:  # noqa: N801
    """Neither record nor swap saved tensors inside; for use within `recording`, with our hooks on top."""

    __slots__ = ("mode",)

    def __enter__(self) -> None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
        self.mode = pause()

    def __exit__(self, *_: object) -> None:
        resume(self.mode)
        torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


@contextlib.contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Record, and swap saved tensors, until the context is left, however it is left (rule 5)."""
    torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)
    try:
        with recorder:
            state.active = True
            try:
                yield
            finally:
                state.active = False
    finally:
        torch._C._autograd._pop_saved_tensors_default_hooks()
