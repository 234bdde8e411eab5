"""Is an incoming gradient ours alone, so that it may be overwritten?

Autograd itself reuses gradient buffers that nobody else refers to. A Python function can tell by three counts: owners of
the tensor, owners of its storage, and references to its Python object. What they are for a gradient that is passed on
and for nobody else depends on the versions of torch and Python, so it is measured once, on a graph of one element, next to
gradients that somebody else does hold. Where the counts do not tell these apart, no gradient is ever overwritten.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

Counts = tuple[int, int, int]

_exclusive: Counts | None = None
_measured = False


def counts(gradient: Tensor) -> Counts:
    """(owners of the tensor, owners of its storage, references in Python); call it from `backward` itself."""
    storage = gradient.untyped_storage()
    return gradient._use_count(), torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(gradient)  # type: ignore[attr-defined]


def is_exclusive(found: Counts) -> bool:
    """True for the counts of a gradient that nobody but the running `backward` refers to."""
    return found == _exclusive


class _Probe(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, found: list[Counts]) -> Tensor:  # type: ignore[override]
        ctx.found = found
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        ctx.found.append(counts(g))
        return g * 2, None


def measure_once() -> None:
    """Find out what the counts of an exclusive gradient are (or that they cannot be told)."""
    global _exclusive, _measured
    if _measured:
        return
    _measured = True
    if not hasattr(Tensor, "_use_count") or not hasattr(torch._C, "_storage_Use_Count"):
        return
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        alone = _alone()
        if alone not in _shared():
            _exclusive = alone


def _alone() -> Counts:
    found: list[Counts] = []
    x = torch.ones(1, requires_grad=True)
    (_Probe.apply(x, found) * 2).sum().backward()  # type: ignore[no-untyped-call]
    return found[0]


def _shared() -> list[Counts]:
    """Counts of gradients that are also held by a sibling branch, a tensor hook, a node hook, or the caller."""
    found: list[Counts] = []
    kept: list[Any] = []
    x = torch.ones(1, requires_grad=True)

    def probe() -> Tensor:
        return _Probe.apply(x, found)  # type: ignore[no-untyped-call, no-any-return]

    siblings: list[Counts] = []
    a, b = _Probe.apply(x, siblings), _Probe.apply(x, siblings)  # type: ignore[no-untyped-call]
    ((a + b) * 2).sum().backward()
    hooked = probe()
    hooked.register_hook(kept.append)
    (hooked * 2).sum().backward()
    product = probe() * 2
    product.grad_fn.register_hook(lambda inputs, _: kept.append(inputs))
    product.sum().backward()
    given = torch.ones(1)
    probe().backward(given)
    viewed = probe()
    viewed.register_hook(lambda g: kept.append(g.view(1)))
    (viewed * 2).sum().backward()
    return [siblings[0], *found]
