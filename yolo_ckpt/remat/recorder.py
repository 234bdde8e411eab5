"""The recorder: writes operators down as recipes while a planned stage runs forward.

Recording is on only inside `recording()`, on the thread that entered it, and leaves nothing on however that is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from yolo_ckpt.remat import pool
from yolo_ckpt.remat.hooks import pack, unpack
from yolo_ckpt.remat.normalize import norm_of_call
from yolo_ckpt.remat.operators import Kind, draws_random, is_dear, kind_of, replays_write, written
from yolo_ckpt.remat.registry import file, forget, freeze, is_plain, is_worth, lookup, record, record_dear, refer, state
from yolo_ckpt.remat.values import NO_KWARGS, Ref, Value, geometry_of


class Recorder(TorchDispatchMode):
    """Writes operators down as recipes while a planned stage runs forward."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping costs two Python calls for each operator, and what is compiled is never recorded

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = kind_of(func)
        kwargs = kwargs or NO_KWARGS
        if kind is Kind.WRITE:
            return _write(func, args, kwargs)
        out = func(*args, **kwargs)
        if kind is Kind.VIEW or kind is Kind.KEEP or not torch.is_grad_enabled():
            return out
        outputs = [pair for pair in _outputs(out) if is_worth(pair[1])]
        if outputs and all(map(is_plain, _tensors_in(args, kwargs))):
            _write_down(kind, func, args, kwargs, out, outputs)
        return out


def _write_down(kind: Kind, func: Any, args: Any, kwargs: Any, out: Any, outputs: Any) -> None:
    """Record the `outputs` (index, tensor) of one call that are worth it."""
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
            for index, leaf in outputs:
                record_dear(leaf, lambda i=index: (*_frozen_call(func, args, kwargs), i))  # type: ignore[misc]
    else:
        call = _frozen_call(func, args, kwargs)
        for index, leaf in outputs:
            record(leaf, *call, index)


def _tensors_in(args: Any, kwargs: Any) -> Iterator[Tensor]:
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from (a for a in arg if isinstance(a, Tensor))


def _frozen_call(func: Any, args: Any, kwargs: Any) -> tuple[Any, tuple[Any, ...], Any]:
    """(replay, arguments, keywords) of a call, with every tensor frozen, also those given by keyword."""
    if not any(isinstance(value, (Tensor, list, tuple)) for value in kwargs.values()):
        return func, tuple([freeze(a) for a in args]), kwargs
    count, names = len(args), list(kwargs)

    def call(*values: Any) -> Any:
        return func(*values[:count], **dict(zip(names, values[count:], strict=True)))

    return call, tuple([freeze(a) for a in (*args, *kwargs.values())]), NO_KWARGS


def _outputs(out: Any) -> list[tuple[int | None, Tensor]]:
    if isinstance(out, Tensor):
        return [(None, out)]
    return [(i, t) for i, t in enumerate(out) if isinstance(t, Tensor)] if isinstance(out, (tuple, list)) else []


def _write(func: Any, args: Any, kwargs: Any) -> Any:
    """An in-place operator. A cheap value becomes the recipe of its new content, where that can be run again; a root
    that a recipe relies on is copied first. Every other entry of a changed storage is forgotten."""
    changed = [t for t in written(func, args, kwargs) if t.layout is torch.strided]
    new = _rewritten(func, args, kwargs)
    for tensor in changed:
        value = lookup(tensor)
        if value is not None and value.tensor is not None and value.used:
            value.hold(_copy_of_storage(value))
        if new is None:
            forget(tensor.untyped_storage()._cdata)
    out = func(*args, **kwargs)
    if new is not None:
        file(args[0], new, args[0]._version + 1, weak=False)  # autograd moves the counter after this returns
    return out


def _rewritten(func: Any, args: Any, kwargs: Any) -> Value | None:
    """The value of a cheap value's storage after this call, or None where it has to become unknown."""
    if not replays_write(func, args, kwargs) or not all(map(is_plain, _tensors_in(args, kwargs))):
        return None
    old = lookup(args[0])
    if old is None or old.tensor is not None:
        return None
    replay, frozen, keywords = _frozen_call(func, args, kwargs)
    new = Value(args[0], old.nbytes)
    new.geometry = old.geometry
    new.recipe(_replay_write, [Ref(old), geometry_of(args[0]), replay, list(frozen[1:])], keywords)
    return new


def _copy_of_storage(value: Value) -> Tensor:
    """The held tensor of a root over a copy of its whole storage, since views of it are told by absolute offsets."""
    held = value.held()
    whole = held.as_strided((held.untyped_storage().nbytes() // held.element_size(),), (1,), 0).clone()
    return whole.as_strided(*value.geometry)


def _replay_write(base: Tensor, geometry: Any, func: Any, args: list[Any], **kwargs: Any) -> Tensor:
    """The content of a storage after `func` changed a view of it in place."""
    base = base.clone()
    func(base.as_strided(*geometry), *args, **kwargs)
    return base


def may_record() -> bool:
    """False without gradients, inside a planned stage, and where saved-tensor hooks are forbidden."""
    hooks_allowed = torch._C._autograd._saved_tensors_hooks_is_enabled()  # type: ignore[attr-defined]
    return torch.is_grad_enabled() and not state.active and hooks_allowed


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
    """Record, and swap saved tensors, until the context is left, however it is left."""
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
