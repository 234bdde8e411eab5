"""Running a training step with its loss on the meta device, where tensors have sizes and no content.

A loss looks at content: how many objects an image has, which anchors lie inside boxes. So small tensors whose content
is known (the targets, and what is computed from them and from constants) have a shadow on the CPU.

1. An operator whose tensors all have shadows, and whose outputs are small, runs on the shadows too.
2. Shadows belong to storages: views of a storage share one, and a write of unknown content ends it.
3. Where content decides a size (`nonzero`, a boolean mask as index) and there is no shadow, the caller's estimate of
   how many elements of the mask are true decides.
4. Where content decides a branch (`if mask.sum():`) and there is no shadow, the number is a large one.
5. A meta tensor that is moved to the CPU is its shadow there, or zeros.
6. `torch.tensor` and indexing with a list put no content on meta, and no operator shows what they were given: they are
   caught as functions.
7. Lists of pairs and of anchors (one or two dimensions) may be larger than tables and still have a shadow.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

MANY = 1024  # what a number without content counts as (rule 4)
SHADOW_MAX_ELEMENTS = 1 << 20
LIST_MAX_ELEMENTS = 1 << 24

_aten = torch.ops.aten
_WITH_MASKS = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)

CountTrue = Callable[[torch.Size], int]  # of a boolean mask of this size


class Simulation(TorchDispatchMode):
    """Context in which a step with content-dependent operators runs on meta tensors (rules at the top of this file)."""

    def __init__(self, count_true: CountTrue) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._count_true = count_true
        self._shadows: dict[int, Tensor] = {}  # by storage: a flat CPU tensor over all of it

    def __enter__(self) -> Simulation:
        self._python = _PythonContent(self)
        self._python.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._python.__exit__(*error)  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping costs two Python calls for each operator, and nothing here is compiled

    def lend(self, tensor: Tensor) -> Tensor:
        """`tensor` (CPU) on meta, with its content known."""
        made = torch.empty_like(tensor, device="meta")
        self._remember(made, tensor)
        return made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors(args) + _tensors(kwargs.values()) if kwargs else _tensors(args)
        if not given and not _moves_to(kwargs, "meta"):
            return func(*args, **kwargs)
        if given and not any(t.is_meta for t in given):
            return self._to_meta(func, args, kwargs) if _moves_to(kwargs, "meta") else func(*args, **kwargs)
        shadows = [self._shadow(t) if t.is_meta else t for t in given] if self._shadows else [None]
        known = not any(s is None for s in shadows)
        if not known and func in _CONSTANTS:
            return self._constant(func, args, kwargs)
        if not known and _is_alike(func, given, kwargs):
            return self._alike(func, args, kwargs, given[0])
        quick = _QUICK.get(func)
        if quick is not None and not known and _is_dense(args[0]):
            return quick(*args, **kwargs)
        if func is _aten._local_scalar_dense.default:
            return func(shadows[0]) if known else torch.full((), MANY, dtype=args[0].dtype).item()
        if _moves_to(kwargs, "cpu"):
            return self._to_cpu(args[0], kwargs)
        return self._run(func, args, kwargs, known)

    def _run(self, func: Any, args: Any, kwargs: Any, known: bool) -> Any:
        """The operator on meta, and on shadows where that is possible (rules 1 to 3)."""
        content = self._on_shadows(func, args, kwargs) if known else None
        special = _SPECIAL.get(func)
        if special is not None:
            out = special(self._count_true, args) if content is None else _like(content)
        else:
            if func in _WITH_MASKS:
                args = (args[0], self._positions(args[1]), *args[2:])
            out = func(*_map(_blank, args), **kwargs)
        if func._schema.is_mutable:
            if content is None:
                self._forget_written(func, args)
        elif content is not None and not _is_view(func):
            for made, value in zip(_tensors(out), _tensors(content), strict=True):
                self._remember(made, value)
        return out

    def _alike(self, func: Any, args: Any, kwargs: Any, like: Tensor) -> Tensor:
        """An elementwise operator on tensors of one layout; torch's own way takes a hundred times as long."""
        if kwargs and func._schema.arguments[-1].is_out:
            return kwargs[func._schema.arguments[-1].name]  # type: ignore[no-any-return]
        if func._schema.is_mutable:
            self._forget_written(func, args)
            return args[0]  # type: ignore[no-any-return]
        return torch.empty_like(like)

    def _constant(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        """A new tensor whose content does not depend on that of the one it is made like."""
        made: Tensor = func(*args, **kwargs)
        if _may_have_shadow(made.shape):
            like = torch.empty(args[0].shape if func in _LIKE else 0, dtype=args[0].dtype)
            self._remember(made, func(like, *args[1:], **{k: v for k, v in kwargs.items() if k != "device"}))
        return made

    def _on_shadows(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What the operator puts out for the shadows; None where that is not worth it."""
        if _is_view(func) or not _may_have_shadow(_shape(func, args, kwargs)):
            return None
        args, kwargs = (tree_map(lambda t: self._shadow(t) if _on_meta(t) else t, a) for a in (args, kwargs))
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)

    def _positions(self, indices: Any) -> list[Any]:
        """Boolean masks among indices as the positions that they stand for (rule 3)."""
        found: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                found.append(index)
                continue
            shadow = self._shadow(index) if index.is_meta else index
            count = self._count_true(index.shape) if shadow is None else int(shadow.count_nonzero())
            count = min(count, index.numel())
            found += [torch.empty(count, dtype=torch.int64, device="meta") for _ in range(index.dim())]
        return found

    def _remember(self, made: Tensor, content: Tensor) -> None:
        if not _may_have_shadow(made.shape) or made.shape != content.shape:
            return
        storage = made.untyped_storage()
        flat = torch.zeros(storage.nbytes() // made.element_size(), dtype=made.dtype)
        flat.as_strided(made.size(), made.stride(), made.storage_offset()).copy_(content)
        key = storage._cdata
        self._shadows[key] = flat
        weakref.finalize(storage, self._shadows.pop, key, None).atexit = False

    def _shadow(self, tensor: Tensor) -> Tensor | None:
        flat = self._shadows.get(tensor.untyped_storage()._cdata)
        if flat is None or flat.dtype is not tensor.dtype:
            return None
        return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def _forget_written(self, func: Any, args: Any) -> None:
        for i, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write and i < len(args):
                for tensor in _tensors(args[i]):
                    self._shadows.pop(tensor.untyped_storage()._cdata, None)

    def _to_meta(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self.lend(func(*args, **{**kwargs, "device": "cpu"}))

    def _to_cpu(self, tensor: Tensor, kwargs: Any) -> Tensor:
        shadow = self._shadow(tensor)
        dtype = kwargs.get("dtype") or tensor.dtype
        return torch.zeros(tensor.shape, dtype=dtype) if shadow is None else shadow.to(dtype, copy=True)


class _PythonContent(TorchFunctionMode):
    """Keeps the content of lists of numbers that become meta tensors (rule 6)."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and _moves_to(kwargs, "meta"):
            return self._simulation.lend(func(*args, **{**kwargs, "device": "cpu"}))
        if func is Tensor.__getitem__ and args[0].is_meta and _is_positions(args[1]):
            return func(args[0], self._simulation.lend(torch.tensor(args[1])))
        return func(*args, **kwargs)


def _is_positions(index: Any) -> bool:
    return isinstance(index, list) and bool(index) and all(type(i) is int for i in index)


def _nonzero(count_true: CountTrue, args: Any) -> Tensor:
    return torch.empty(min(count_true(args[0].shape), args[0].numel()), args[0].dim(), dtype=torch.int64, device="meta")


def _masked_select(count_true: CountTrue, args: Any) -> Tensor:
    return args[0].new_empty(min(count_true(args[1].shape), args[1].numel()))  # type: ignore[no-any-return]


def _unique(_: CountTrue, args: Any) -> tuple[Tensor, Tensor, Tensor]:
    """As many as there are elements: all of them differ."""
    values = args[0].new_empty(args[0].numel())
    return values, torch.empty_like(args[0], dtype=torch.int64), torch.empty_like(values, dtype=torch.int64)


def _bincount(_: CountTrue, args: Any) -> Tensor:
    return torch.empty(max(args[2] if len(args) > 2 else 0, 1), dtype=torch.int64, device="meta")


def _batch_norm(x: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    statistics = [torch.empty(x.size(1), dtype=_statistics_type(x), device="meta") for _ in range(2)]
    return torch.empty_like(x), statistics[0], statistics[1]


def _batch_norm_backward(g: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    want_x, want_weight, want_bias = rest[-1]
    sums = [torch.empty(x.size(1), dtype=_statistics_type(x), device="meta") for _ in range(2)]
    return torch.empty_like(x) if want_x else None, sums[0] if want_weight else None, sums[1] if want_bias else None


def _statistics_type(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


# Operators that are most of a step, and for which torch's own way on meta is Python and slow.
_QUICK: dict[Any, Callable[..., Any]] = {
    _aten.native_batch_norm.default: _batch_norm,
    _aten.native_batch_norm_backward.default: _batch_norm_backward,
}

_LIKE = (_aten.zeros_like.default, _aten.ones_like.default, _aten.full_like.default)
_CONSTANTS = (*_LIKE, _aten.new_zeros.default, _aten.new_ones.default, _aten.new_full.default)

_SPECIAL: dict[Any, Callable[[CountTrue, Any], Any]] = {
    _aten.nonzero.default: _nonzero,
    _aten.masked_select.default: _masked_select,
    _aten._unique2.default: _unique,
    _aten.bincount.default: _bincount,
}


def _on_meta(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_meta


def _tensors(tree: Any) -> list[Tensor]:
    """The tensors of an operator's arguments or results, which nest no deeper than lists."""
    found: list[Tensor] = []
    for leaf in (tree,) if isinstance(tree, Tensor) else tree or ():
        if isinstance(leaf, Tensor):
            found.append(leaf)
        elif isinstance(leaf, (list, tuple)):
            found += (t for t in leaf if isinstance(t, Tensor))
    return found


def _map(change: Callable[[Any], Any], args: Any) -> list[Any]:
    return [[change(a) for a in arg] if isinstance(arg, (list, tuple)) else change(arg) for arg in args]


def _like(tree: Any) -> Any:
    return tree_map(lambda t: torch.empty_like(t, device="meta") if isinstance(t, Tensor) else t, tree)


def _blank(leaf: Any) -> Any:
    """A CPU tensor among meta ones as a meta tensor; a number may stay."""
    if not isinstance(leaf, Tensor) or leaf.is_meta or leaf.dim() == 0:
        return leaf
    return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="meta")


def _is_alike(func: Any, given: list[Tensor], kwargs: Any) -> bool:
    """True for an elementwise operator that puts out one tensor of the layout that all its tensors have."""
    kind = _alike_kinds.get(func)
    if kind is None:
        schema = func._schema
        kind = (
            torch.Tag.pointwise in func.tags
            and len(schema.returns) == 1
            and func.overloadpacket.__name__ not in _OF_OTHER_TYPE
        )
        _alike_kinds[func] = kind
    if not kind or kwargs.get("dtype") is not None or kwargs.get("memory_format") is not None:
        return False
    first = given[0]
    layout = (first.shape, first.stride(), first.dtype)
    same = all(t.is_meta and (t.shape, t.stride(), t.dtype) == layout for t in given)
    return same and first.dtype.is_floating_point and _is_dense(first)


def _is_dense(tensor: Tensor) -> bool:
    """True where a new tensor of the same layout has the same strides."""
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


_alike_kinds: dict[Any, bool] = {}
_OF_OTHER_TYPE = frozenset(
    """
    eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_not bitwise_xor where _to_copy frexp copy_
    """.split()  # noqa: SIM905 (a list of 20 lines reads worse)
)


def _moves_to(kwargs: Any, device: str) -> bool:
    wanted = kwargs.get("device")
    return wanted is not None and torch.device(wanted).type == device


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _may_have_shadow(shape: torch.Size) -> bool:
    return shape.numel() <= (LIST_MAX_ELEMENTS if len(shape) <= 2 else SHADOW_MAX_ELEMENTS)


def _shape(func: Any, args: Any, kwargs: Any) -> torch.Size:
    """What broadcasting the tensors together gives, or what a factory is asked for."""
    shapes = [t.shape for t in (*_tensors(args), *_tensors(kwargs.values()))]
    if not shapes:
        return torch.Size(args[0] if args and isinstance(args[0], (list, tuple)) else ())
    try:
        return torch.Size(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return max(shapes, key=torch.Size.numel)
