"""Values: what a saved activation was computed from, and how it is computed again.

A value is one of three things.

root      a tensor that is alive anyway and is simply held
cheap     a recipe: one operator on other values; evaluated each time it is needed, never stored
dear      a convolution, matrix product or fused attention; held (selective), or recomputed once and then held (full)

Rules that the rest of the engine relies on:

1. A value never holds a tensor that has an autograd history: tensors are held detached, so that no reference cycle
   runs through the graph. Detaching shares the version counter, which rule 2 needs.
2. A held tensor is used only while its version counter is what it was when it was recorded; otherwise `RematError`.
3. A recomputed tensor has the size and stride of the original, because every saved view is (size, stride, offset)
   over its storage.
4. A dear value that has been recomputed stays until the last handle that needs it is released. Nobody but handles
   and other values holds values, so reference counting frees it at exactly that moment.
5. Replays run without gradients, without autocast (the dtypes are recorded) and without recording.
6. A small cheap value that several handles need is computed for the first and kept until the last has asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.errors import RematError

Geometry = tuple[Any, Any, Any]  # size, stride and storage offset of a view

_order = itertools.count()

CAT = torch.ops.aten.cat.default
LARGE_BYTES = 4 << 20  # what is recomputed and smaller stays while it is needed: its time is worth more than its bytes
CHAIN = 2  # dear values to compute again at most for one that was let go of inside a segment
NO_KWARGS: Mapping[str, Any] = MappingProxyType({})
SLICED_CAT_MIN_BYTES = 1 << 20  # below this, one call of cat is faster and its extra copy is small


def geometry_of(tensor: Tensor) -> Geometry:
    """(size, stride, storage offset) of `tensor`: all that tells it from other views of its storage."""
    return tensor.size(), tensor.stride(), tensor.storage_offset()


def detached(tensor: Tensor) -> Tensor:
    """`tensor` without autograd history but with its version counter (rule 1), also while an operator is dispatched
    below autograd, where a plain detach would start a counter of its own."""
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):
        return tensor.detach()


class Ref:
    """A use of a value by a recipe: the value, and the view of it that was used."""

    __slots__ = ("geometry", "value")

    def __init__(self, value: Value, geometry: Geometry | None = None) -> None:
        self.value = value
        self.geometry = None if geometry == value.geometry else geometry  # None: the value as it is

    def view_of(self, tensor: Tensor) -> Tensor:
        """The used view, given the value's tensor."""
        return tensor if self.geometry is None else tensor.as_strided(*self.geometry)


class Value:
    """One activation, held or known by its recipe (see the rules at the top of this file)."""

    # Defaults live on the class: thousands of values are made in each step, and most keep most of them.
    replay: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = NO_KWARGS
    index: int | None = None  # which output of the replayed operator
    tensor: Tensor | None = None
    version = 0
    dear = False
    redo = False  # a dear value below may have to be recomputed first
    depth = 0  # cheap operators between this value and held ones
    pinned = False  # everything it needs is held on behalf of some handle already
    used = False  # a recipe refers to it
    lent = False  # somebody else holds it for a while longer
    ends: tuple[Value, ...] = ()  # the recomputable dear values that it is made of by cheap operators alone
    live = 0  # dear: living storages that are made of it
    uses = 0  # dear: handles that are made of it
    left = 0  # those of them that this backward pass has not asked yet
    waiting = 0  # handles on this value itself that have not asked yet; not counted again in a second backward pass
    memo: Tensor | None = None  # a cheap value that more handles wait for (rule 6)

    def __init__(self, like: Tensor, nbytes: int) -> None:
        self.geometry = (like.size(), like.stride(), like.storage_offset())
        self.dtype = like.dtype
        self.nbytes = nbytes
        self.order = next(_order)

    def hold(self, tensor: Tensor) -> None:
        """Hold `tensor` (detached, of this value's geometry) as this value."""
        self.tensor = tensor
        self.version = tensor._version

    def recipe(self, replay: Callable[..., Any], args: Any, kwargs: Any = NO_KWARGS, index: int | None = None) -> None:
        """Make this value recomputable: output `index` of `replay(*args, **kwargs)`, with `Ref`s for tensors."""
        self.replay, self.args, self.kwargs, self.index = replay, args, kwargs, index
        for ref in refs_in(args):
            ref.value.used = True
            self.redo |= ref.value.redo
            if not ref.value.dear and ref.value.tensor is None:
                self.depth = max(self.depth, ref.value.depth + 1)
        if self.redo and not self.dear:
            self.ends = tuple({id(e): e for ref in refs_in(args) for e in ref.value.own_ends()}.values())

    def own_ends(self) -> tuple[Value, ...]:
        """`ends` as somebody who uses this value sees them."""
        return (self,) if self.dear and self.replay is not None else self.ends

    def let_go(self) -> None:
        """Drop the held tensor of a value that can be recomputed."""
        if self.replay is not None:
            self.tensor = None

    def asked(self) -> None:
        """One of the handles that are made of this dear value has been evaluated."""
        self.left -= 1
        if not self.left:  # a second backward pass over a retained graph computes it again
            self.left = self.uses
            self.let_go()

    def remember(self, tensor: Tensor) -> None:
        """Keep a cheap value for the handles that wait for it (rule 6)."""
        if self.waiting > 0 and self.nbytes < LARGE_BYTES:
            self.memo = tensor

    def answered(self, tensor: Tensor) -> None:
        """A handle on this value has been evaluated, to `tensor`."""
        self.waiting -= 1
        self.memo = None
        self.remember(tensor)

    def drop_recipe(self) -> None:
        """Forget how it was computed, and with that everything it was computed from."""
        self.replay, self.args, self.kwargs, self.redo, self.ends = None, (), NO_KWARGS, False, ()

    def held(self) -> Tensor:
        """The held tensor, after the check of rule 2."""
        assert self.tensor is not None
        if self.tensor._version != self.version:
            raise RematError(
                f"an activation of shape {tuple(self.geometry[0])} was changed in place after the forward pass used it "
                f"(version {self.tensor._version}, recorded at {self.version}); its gradient cannot be exact. "
                f"Change a copy instead, or leave the stage out with ckpt_stages"
            )
        return self.tensor


def refs_in(args: Any) -> Iterator[Ref]:
    """Every `Ref` in a recipe's arguments, in order."""
    for arg in args:
        if type(arg) is Ref:
            yield arg
        elif type(arg) is list:
            yield from refs_in(arg)


def held_roots(value: Value) -> list[Value]:
    """The held values that `value` (itself included) is made of, each once."""
    seen, stack, roots = {id(value)}, [value], []
    while stack:
        current = stack.pop()
        if current.tensor is not None:
            roots.append(current)
            continue
        for ref in refs_in(current.args):
            if id(ref.value) not in seen:
                seen.add(id(ref.value))
                stack.append(ref.value)
    return roots


def evaluate(value: Value) -> Tensor:
    """The tensor of `value`, recomputed where it is not held. Runs under rule 5."""
    if value.tensor is not None:
        return value.held()
    if value.memo is not None:
        return value.memo
    if not value.redo:
        held = all(ref.value.tensor is not None for ref in refs_in(value.args))
        return _compute(value, _held_view) if held else _Evaluation(value).run()
    missing = _missing_dear(value)
    if missing:
        _recompute(value, missing)
    return value.tensor if value.tensor is not None else _Evaluation(value).run()


def _recompute(value: Value, missing: list[Value]) -> None:
    """Hold the `missing` dear values below `value` that its own evaluation needs."""
    last = _last_uses(value, missing)
    for place, dear in enumerate(missing):
        dear.hold(_Evaluation(dear).run())
        _let_go_inner([d for d in missing[:place] if last.get(id(d)) == place])


def _last_uses(value: Value, missing: list[Value]) -> dict[int, int]:
    """For what is only on the way to `value`: the last place in `missing` whose computation uses it."""
    last = {id(e): place for place, dear in enumerate(missing) for r in refs_in(dear.args) for e in r.value.own_ends()}
    for end in value.own_ends():
        last[id(end)] = len(missing)  # used by what is evaluated last
    return last


def _let_go_inner(done: list[Value]) -> None:
    """Let go of those large values on the way that few convolutions bring back from what stays."""
    for dear in done:
        if dear.nbytes >= LARGE_BYTES and _comes_back(dear, CHAIN):
            dear.let_go()


def _comes_back(dear: Value, convolutions: int) -> bool:
    """True when `dear` can be computed from held values through so many dear ones, itself included."""
    ends = (e for ref in refs_in(dear.args) for e in ref.value.own_ends())
    return all(e.tensor is not None or (convolutions > 1 and _comes_back(e, convolutions - 1)) for e in ends)


def _missing_dear(value: Value) -> list[Value]:
    """The dear values below `value` (itself included) that are not held, in the order they were computed."""
    seen, stack, missing = {id(value)}, [value], []
    while stack:
        current = stack.pop()
        if current.tensor is not None or current.memo is not None:
            continue
        if current.dear:
            missing.append(current)
        for ref in refs_in(current.args):
            if id(ref.value) not in seen:
                seen.add(id(ref.value))
                stack.append(ref.value)
    return sorted(missing, key=lambda v: v.order)


def _held_view(ref: Ref) -> Tensor:
    return ref.view_of(ref.value.held())


def _compute(value: Value, get: Callable[[Ref], Tensor]) -> Tensor:
    """Run a value's recipe, with `get` for the tensors that it uses."""
    assert value.replay is not None
    if value.replay is CAT and value.nbytes >= SLICED_CAT_MIN_BYTES:
        return _sliced_cat(value, get)
    out = value.replay(*_thaw(value.args, get), **value.kwargs)
    if value.index is not None:
        out = out[value.index]
    if out.size() != value.geometry[0] or out.stride() != value.geometry[1]:
        raise RematError(
            f"{value.replay} gave size {tuple(out.size())} and stride {out.stride()} when it was recomputed, but "
            f"{tuple(value.geometry[0])} and {value.geometry[1]} in the forward pass; "
            f"leave the stage out with ckpt_stages and please report this"
        )
    return out  # type: ignore[no-any-return]


def _thaw(args: Any, get: Callable[[Ref], Tensor]) -> list[Any]:
    return [get(a) if type(a) is Ref else _thaw(a, get) if type(a) is list else a for a in args]


def _sliced_cat(value: Value, get: Callable[[Ref], Tensor]) -> Tensor:
    """A concatenation filled piece by piece, so that only one piece is alive beside it. Copies are exact."""
    size, stride, _ = value.geometry
    dim = value.args[1] if len(value.args) > 1 else 0
    out, start = None, 0
    for ref in value.args[0]:
        piece = get(ref)
        if out is None:
            out = torch.empty_strided(size, stride, dtype=value.dtype, device=piece.device)
        if piece.numel():
            out.narrow(dim, start, piece.size(dim)).copy_(piece)
            start += piece.size(dim)
        del piece
    assert out is not None
    return out


class _Evaluation:
    """One evaluation of a value whose dear inputs are all held: cheap values in between are computed once, and
    dropped after their last use."""

    __slots__ = ("done", "root", "uses")

    def __init__(self, root: Value) -> None:
        self.root = root
        self.uses: dict[int, int] = {}
        self.done: dict[int, Tensor] = {}

    def run(self) -> Tensor:
        self._count(self.root)
        return _compute(self.root, self._get)

    def _count(self, value: Value) -> None:
        for ref in refs_in(value.args):
            if ref.value.tensor is None and ref.value.memo is None:
                key = id(ref.value)
                self.uses[key] = self.uses.get(key, 0) + 1
                if self.uses[key] == 1:
                    self._count(ref.value)

    def _get(self, ref: Ref) -> Tensor:
        value = ref.value
        if value.tensor is not None:
            return ref.view_of(value.held())
        if value.memo is not None:
            return ref.view_of(value.memo)
        key = id(value)
        tensor = self.done.pop(key, None)
        if tensor is None:
            tensor = _compute(value, self._get)
            value.remember(tensor)
        self.uses[key] -= 1
        if self.uses[key]:
            self.done[key] = tensor
        return ref.view_of(tensor)
