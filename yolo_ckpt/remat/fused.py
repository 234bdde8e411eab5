"""Batch normalisation and activation of a convolution as one autograd function that saves only the convolution output.

Backward computes the normalised map again, turns it into the activation's gradient in place, and runs the stock batch
normalisation backward on it. Where the channels are independent down to the last bit it does so in groups of channels,
so that its temporaries stay small.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from yolo_ckpt.remat import ownership
from yolo_ckpt.remat.activations import IDENTITY, Activation
from yolo_ckpt.remat.normalize import Norm
from yolo_ckpt.remat.registry import record, refer, state
from yolo_ckpt.remat.values import LARGE_BYTES

GROUP_BYTES = 1 << 20  # temporaries of a grouped backward; smaller groups cost time, larger ones memory
GROUPED_BATCH_BYTES = (
    64 << 20
)  # a group of a larger batch has to be copied together first: only large maps are worth it
_ALIGN = 128  # elements: twice the widest vector of any CPU kernel


class NormAct(torch.autograd.Function):
    """`activation(batch_norm(y))` in training mode for `y` (B, C, H, W); see the top of this file."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, weight: Tensor | None, bias: Tensor | None, bn: nn.BatchNorm2d, act: Activation
    ) -> Tensor:
        cudnn = torch.backends.cudnn.enabled
        ownership.exclusive_counts()
        momentum = _count_batch(bn)
        buffers = (bn.running_mean, bn.running_var) if bn.track_running_stats else (None, None)
        z, mean, invstd, reserve, impl = torch._batch_norm_impl_index(
            y, weight, bias, *buffers, True, momentum, bn.eps, cudnn
        )
        norm = Norm(weight, bias, mean, invstd, momentum, bn.eps, cudnn)
        norm.remember_bytes = LARGE_BYTES // 4 if state.redo else LARGE_BYTES
        out = act.apply_(z)
        ctx.save_for_backward(y)
        ctx.norm, ctx.act, ctx.tail = norm, act, (impl, reserve, buffers)
        record(out, _replay, (refer(y), norm, act), sure=True)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        ctx.norm.check()
        needed = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            return (*_differentiable_backward(ctx, g, y, needed), None, None)
        ours = ownership.is_exclusive(ownership.counts(g))
        channels = _group_channels(g, y) if ctx.norm.same_loop else y.size(1)
        if channels < y.size(1):
            grads = _grouped_backward(ctx, g, y, needed, channels, ours)
        else:
            grads = _part_backward(ctx.norm, ctx.act, ctx.tail, g, y, needed, ours)
        return (*grads, None, None)


def _replay(y: Tensor, norm: Norm, act: Activation) -> Tensor:
    z = norm.normalize(y)
    if act.apply is None or z.nbytes >= norm.remember_bytes:
        return act.apply_(z)
    norm.z = z
    return act.apply(z)


def _count_batch(bn: nn.BatchNorm2d) -> float:
    """Count this batch as nn.BatchNorm2d does, and return the factor for its running averages."""
    if bn.track_running_stats and bn.num_batches_tracked is not None:
        bn.num_batches_tracked.add_(1)
        if bn.momentum is None:
            return 1.0 / float(bn.num_batches_tracked)
    return 0.0 if bn.momentum is None else bn.momentum


def _differentiable_backward(ctx: Any, g: Tensor, y: Tensor, needed: Any) -> list[Tensor | None]:
    """The gradients with a graph of their own, through the stock operators (a backward pass with create_graph)."""
    norm = ctx.norm
    inputs = [y, norm.weight, norm.bias]
    z = torch.batch_norm(y, norm.weight, norm.bias, None, None, True, norm.momentum, norm.eps, norm.cudnn)
    wanted = [t for t, n in zip(inputs, needed, strict=True) if n]
    found = iter(torch.autograd.grad(ctx.act.apply_(z.clone()), wanted, g, create_graph=True))
    return [next(found) if n else None for n in needed]


def _part_backward(
    norm: Norm, act: Activation, tail: Any, g: Tensor, y: Tensor, needed: Any, ours: bool = False
) -> Any:
    """Gradients of (y, weight, bias) for whole tensors or one group of channels; `ours`: `g` may be overwritten."""
    impl, reserve, buffers = tail
    if act is IDENTITY:
        dz = g
    else:
        z = norm.normalize(y) if norm.z is None else norm.z
        norm.z = None
        into = None if not _same_walk(g, z) else g if ours and g.stride() == z.stride() else z
        dz = act.grad(g, z, into)
        del z
    return torch.ops.aten._batch_norm_impl_index_backward(
        impl, y, dz, norm.weight, *buffers, norm.mean, norm.invstd, True, norm.eps, needed, reserve
    )


def _same_walk(g: Tensor, z: Tensor) -> bool:
    """True when stock's out-of-place call would lay its result out like `z`, so that writing into `z` is the same."""
    return g.dtype is z.dtype and g.stride()[1:] == z.stride()[1:] and z.is_contiguous()


def _group_channels(g: Tensor, y: Tensor) -> int:
    """How many channels to take at once; all of them when groups could change a bit or would save nothing.

    Normalisation works per channel. The elementwise kernels do not: they split the elements among threads and finish
    each part's last few with scalar code, whose rounding may differ. With parts that are whole vectors there are none.
    """
    b, c, h, w = y.shape
    channel_bytes = b * h * w * y.element_size()
    if c * channel_bytes <= (8 * GROUP_BYTES if b == 1 else GROUPED_BATCH_BYTES):
        return c
    if not y.is_contiguous() or not _same_walk(g, y) or (h * w) % (_ALIGN * torch.get_num_threads()):
        return c
    return max(1, GROUP_BYTES // channel_bytes)


def _grouped_backward(ctx: Any, g: Tensor, y: Tensor, needed: Any, channels: int, ours: bool) -> Any:
    dy = None if not needed[0] else g if ours and g.stride() == y.stride() else torch.empty_like(y)
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    impl, reserve, buffers = ctx.tail
    for start in range(0, y.size(1), channels):
        stop = min(start + channels, y.size(1))
        norm = ctx.norm.channels(start, stop)
        part = tuple(None if b is None else b[start:stop] for b in buffers)
        g_part, y_part = g[:, start:stop].contiguous(), y[:, start:stop].contiguous()
        d, dw, db = _part_backward(norm, ctx.act, (impl, reserve, part), g_part, y_part, needed)
        if dy is not None:
            dy[:, start:stop] = d
        weights.append(dw)
        biases.append(db)
    return dy, torch.cat(weights) if needed[1] else None, torch.cat(biases) if needed[2] else None


def can_fuse(bn: nn.Module, act: nn.Module) -> bool:
    """False where only the modules themselves will do: other classes, inference mode, hooks."""
    return type(bn) is nn.BatchNorm2d and bn.training and not hooked(bn) and not hooked(act)


def hooked(module: nn.Module) -> bool:
    """True when calling the module does more than its forward."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or _has_any_global_hook()
    )
