"""Is an incoming gradient ours alone, so that it may be overwritten?

Autograd itself reuses gradient buffers that nobody else refers to. A Python function can tell by three counts: owners
of the tensor, owners of its storage, and references to its Python object. What they are for a gradient that is passed
on and for nobody else depends on the versions of torch and Python, so it is measured once, on a graph of one element,
next to gradients that somebody else does hold. Where the counts do not tell these apart, no gradient is ever
overwritten.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch import Tensor

Counts = tuple[int, int, int]


def counts(gradient: Tensor) -> Counts:
    """(owners of the tensor, owners of its storage, references in Python); call it from `backward` itself."""
    storage = gradient.untyped_storage()
    return gradient._use_count(), torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(gradient)  # type: ignore[attr-defined]


def is_exclusive(found: Counts) -> bool:
    """True for the counts of a gradient that nobody but the running `backward` refers to."""
    return found == exclusive_counts()


@functools.cache
def exclusive_counts() -> Counts | None:
    """What the counts of an exclusive gradient are; None when they cannot be told. Measured at the first call, which
    must not come from inside a backward pass."""
    if not hasattr(Tensor, "_use_count") or not hasattr(torch._C, "_storage_Use_Count"):
        return None
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        alone = _alone()
        return None if alone in _shared() else alone


class _Probe(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, found: list[Counts]) -> Tensor:
        ctx.found = found
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        ctx.found.append(counts(g))
        return g * 2, None


def _alone() -> Counts:
    found: list[Counts] = []
    x = torch.ones(1, requires_grad=True)
    (_Probe.apply(x, found) * 2).sum().backward()
    return found[0]


def _shared() -> list[Counts]:
    """Counts of gradients that are also held by a sibling branch, a tensor hook, a node hook, or the caller."""
    found: list[Counts] = []
    kept: list[Any] = []
    x = torch.ones(1, requires_grad=True)

    def probe() -> Tensor:
        out: Tensor = _Probe.apply(x, found)
        return out

    siblings: list[Counts] = []
    a, b = _Probe.apply(x, siblings), _Probe.apply(x, siblings)
    ((a + b) * 2).sum().backward()
    hooked = probe()
    hooked.register_hook(kept.append)
    (hooked * 2).sum().backward()
    product = probe() * 2
    assert product.grad_fn is not None
    product.grad_fn.register_hook(lambda inputs, _: kept.append(inputs))
    product.sum().backward()
    given = torch.ones(1)
    probe().backward(given)
    viewed = probe()
    viewed.register_hook(lambda g: kept.append(g.view(1)))
    (viewed * 2).sum().backward()
    return [siblings[0], *found]
