"""The activations that the fused normalisation knows: how they are applied in place, and their backward operators.

Each entry calls the operators that autograd would call for the stock module, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

aten = torch.ops.aten
_SILU_BACKWARD = aten.silu_backward.default
_SILU_BACKWARD_INTO = aten.silu_backward.grad_input


class Activation(NamedTuple):
    """An elementwise activation: `apply_(z)` in place, `grad(g, z, out)` with the gradient put into `out` (or a new
    tensor when it is None), and `apply(z)` into a new tensor where it is worth keeping `z`; all (B, C, H, W)."""

    apply_: Callable[[Tensor], Tensor]
    grad: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    apply: Callable[[Tensor], Tensor] | None = None


def _silu_grad(g: Tensor, z: Tensor, out: Tensor | None) -> Tensor:
    return _SILU_BACKWARD(g, z) if out is None else _SILU_BACKWARD_INTO(g, z, grad_input=out)  # type: ignore[no-any-return]


def _relu_grad(g: Tensor, z: Tensor, out: Tensor | None) -> Tensor:
    # threshold_backward lets the gradient pass where its second argument is above 0: z and relu(z) agree on that
    backward = aten.threshold_backward
    return backward.default(g, z, 0) if out is None else backward.grad_input(g, z, 0, grad_input=out)  # type: ignore[no-any-return]


def _leaky_relu(slope: float) -> Activation:
    def grad(g: Tensor, z: Tensor, out: Tensor | None) -> Tensor:
        backward = aten.leaky_relu_backward
        if out is None:
            return backward.default(g, z, slope, False)  # type: ignore[no-any-return]
        return backward.grad_input(g, z, slope, False, grad_input=out)  # type: ignore[no-any-return]

    return Activation(lambda z: F.leaky_relu_(z, slope), grad)


def _hardtanh(low: float, high: float) -> Activation:
    def grad(g: Tensor, z: Tensor, out: Tensor | None) -> Tensor:
        backward = aten.hardtanh_backward
        if out is None:
            return backward.default(g, z, low, high)  # type: ignore[no-any-return]
        return backward.grad_input(g, z, low, high, grad_input=out)  # type: ignore[no-any-return]

    return Activation(lambda z: aten.hardtanh_(z, low, high), grad)


def _gelu(approximate: str) -> Activation:
    def grad(g: Tensor, z: Tensor, out: Tensor | None) -> Tensor:
        backward = aten.gelu_backward
        if out is None:
            return backward.default(g, z, approximate=approximate)  # type: ignore[no-any-return]
        return backward.grad_input(g, z, approximate=approximate, grad_input=out)  # type: ignore[no-any-return]

    return Activation(lambda z: aten.gelu_(z, approximate=approximate), grad)


IDENTITY = Activation(lambda z: z, lambda g, z, out: g)
SILU = Activation(torch._C._nn.silu_, _silu_grad, torch._C._nn.silu)
HARDSWISH = Activation(torch._C._nn.hardswish_, lambda g, z, out: aten.hardswish_backward(g, z))
RELU = Activation(torch.relu_, _relu_grad)

_leaky: dict[float, Activation] = {}
_hard: dict[tuple[float, float], Activation] = {}
_gelus = {"none": _gelu("none"), "tanh": _gelu("tanh")}


def activation_of(module: nn.Module) -> Activation | None:
    """The activation that `module` applies, or None for one that is not known (exact classes only)."""
    kind = type(module)
    if kind is nn.SiLU:
        return SILU
    if kind is nn.Identity:
        return IDENTITY
    if kind is nn.ReLU:
        return RELU
    if kind is nn.Hardswish:
        return HARDSWISH
    if kind is nn.LeakyReLU:
        slope = float(module.negative_slope)  # type: ignore[arg-type]
        return _leaky.setdefault(slope, _leaky_relu(slope))
    if kind is nn.ReLU6:
        return _hard.setdefault((0.0, 6.0), _hardtanh(0.0, 6.0))
    if kind is nn.Hardtanh:
        limits = (float(module.min_val), float(module.max_val))  # type: ignore[arg-type]
        return _hard.setdefault(limits, _hardtanh(*limits))
    if kind is nn.GELU:
        return _gelus.get(str(module.approximate))
    return None
