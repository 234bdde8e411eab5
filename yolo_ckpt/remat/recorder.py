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
from yolo_ckpt.remat.operators import Kind, draws_random, is_dear, kind_of, written
from yolo_ckpt.remat.registry import file, forget, freeze, lookup, record, record_dear, refer, state
from yolo_ckpt.remat.values import NO_KWARGS, Ref, Value, geometry_of


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
                    record_dear(
                        leaf,
                        lambda i=index: (  # type: ignore[misc]
                            func,
                            tuple([freeze(a) for a in args]),
                            kwargs,
                            i,
                        ),
                    )
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
