"""A convolution whose backward takes the weight's gradient first and the input's gradient second.

The stock node computes both in one call, so the recomputed input (B, C, H, W) and its gradient are alive together. The
weight's gradient alone needs the input's content. The second call only looks at the input's size, stride and dtype, so
any living storage that is large enough stands in for it, and the recomputed input is gone by then. Where there is none,
on the CPU, a tensor does whose memory is never touched. (One without any memory crashed in some of oneDNN's shapes.)
Backends compute the two gradients with separate kernels in either case: the bits are the same.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from yolo_ckpt.remat.registry import record_dear, refer
from yolo_ckpt.remat.simulated import is_on_cpu
from yolo_ckpt.remat.values import Value, refs_in

_CONVOLUTION = torch.ops.aten.convolution.default
_BACKWARD = torch.ops.aten.convolution_backward.default
SPLIT_MIN_BYTES = 8 << 20  # below this the second call costs more time than the input costs memory

Geometry = tuple[Any, ...]  # (stride, padding, dilation, transposed, output_padding, groups)


def _nothing() -> None:
    return None


class SplitConv(torch.autograd.Function):
    """`convolution(x, weight, bias)`; see the top of this file. Twice differentiable through the stock operator."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
        y: Tensor = _CONVOLUTION(x, weight, bias, *geometry)
        x_ref = refer(x)
        ctx.save_for_backward(x, weight)
        ctx.geometry, ctx.bias_size = geometry, None if bias is None else list(bias.shape)
        # weak: the graph may live on after backward has used this node, and a value holds what it is made of
        ctx.value = _nothing if x_ref.geometry is not None else weakref.ref(x_ref.value)
        record_dear(y, lambda: (_CONVOLUTION, (x_ref, refer(weight), None if bias is None else refer(bias), *geometry)))
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        need_x, need_w, need_b, _ = ctx.needs_input_grad
        x, weight = ctx.saved_tensors
        rest = (ctx.bias_size, *ctx.geometry)
        split = need_x and (need_w or need_b) and not _is_held(ctx.value())
        stand_in = _stand_in(x, g, ctx.value()) if split else None
        if stand_in is None and split and is_on_cpu(x):
            stand_in = _untouched(x)
        if torch.is_grad_enabled() or stand_in is None:
            return (*_BACKWARD(g, x, weight, *rest, [need_x, need_w, need_b]), None)
        _, dw, db = _BACKWARD(g, x, weight, *rest, [False, need_w, need_b])
        del x
        return _BACKWARD(g, stand_in, weight, *rest, [True, False, False])[0], dw, db, None


def _is_held(value: Value | None) -> bool:
    """True where the input is held anyway: nothing to gain by a second call."""
    return value is not None and value.tensor is not None


def _stand_in(x: Tensor, g: Tensor, value: Value | None) -> Tensor | None:
    """A tensor of the layout of `x` over living storage: the gradient's, or that of what `x` was computed from."""
    below = [ref.value.tensor for ref in refs_in(value.args)] if value is not None else []
    for tensor in (g, *below):
        if tensor is not None and tensor.dtype is x.dtype and _room_for(x) <= tensor.untyped_storage().nbytes():
            return tensor.as_strided(x.size(), x.stride(), 0)
    return None


def _untouched(x: Tensor) -> Tensor:
    """A tensor of the layout of `x` on the CPU whose memory nobody touches: the operating system gives none until then.
    Made where no mode counts it."""
    with _disable_current_modes():
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)


def _room_for(x: Tensor) -> int:
    """Bytes from the first element of `x` to its last."""
    last = sum((size - 1) * stride for size, stride in zip(x.size(), x.stride(), strict=True))
    return (last + 1) * x.element_size()
