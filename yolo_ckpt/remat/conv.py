"""The forward of a convolution block, `act(bn(conv(x)))`, as the engine runs it.

The recorder costs several microseconds for each operator, and these blocks are most of a model, so it is paused here
and what it would have seen is recorded directly.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.remat import registry
from yolo_ckpt.remat.activations import activation_of
from yolo_ckpt.remat.fused import NormAct, can_fuse, hooked
from yolo_ckpt.remat.hooks import ours_on_top
from yolo_ckpt.remat.recorder import pause, resume, unrecorded
from yolo_ckpt.remat.registry import record_dear, refer, state
from yolo_ckpt.remat.simulated import autocast_dtype
from yolo_ckpt.remat.split import SPLIT_MIN_BYTES, SplitConv

_CONVOLUTION = torch.ops.aten.convolution.default


def _reference_forward(self: Any, x: Any) -> Any:
    return self.act(self.bn(self.conv(x)))


def is_conv_block(kind: type) -> bool:
    """True when the forward of the class `kind` is, instruction for instruction, `self.act(self.bn(self.conv(x)))`."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    reference = _reference_forward.__code__
    return code is not None and (code.co_code, code.co_names) == (reference.co_code, reference.co_names)


def conv_block_forward(block: Any, box: list[Tensor]) -> Tensor | None:
    """`block.act(block.bn(block.conv(x)))` with its normalisation and activation fused, for the single `x` (B, C, H, W)
    in `box`, which is taken out as soon as the convolution has read it. None, with `x` still in the box, when the block
    must run as it is."""
    if not state.active or not ours_on_top():
        return None
    conv, bn, act = (block._modules.get(name) for name in ("conv", "bn", "act"))
    if conv is None or bn is None or act is None or box[0].dim() != 4:
        return None
    plain = _is_plain(conv)
    if plain and _is_small(conv, box[0]):
        with unrecorded():
            return act(bn(conv(box.pop())))  # type: ignore[no-any-return]
    activation = activation_of(act)
    if activation is None or not can_fuse(bn, act):
        return None
    direct = plain and not hooked(conv) and _casts_weight_at_most(conv, box[0])
    y = None if direct else conv(box.pop())  # the recorder has to see other casts, and what a hook does
    mode = pause()
    try:
        if y is None:
            y = _convolve(conv, box.pop())
        if not y.requires_grad or y.dim() != 4 or y.numel() == y.size(1):
            return act(bn(y))  # type: ignore[no-any-return]
        out: Tensor = NormAct.apply(y, bn.weight, bn.bias, bn, activation)
        return out
    finally:
        resume(mode)


def conv_forward(conv: Any, x: Tensor) -> Tensor | None:
    """The convolution `conv` alone, of `x` (B, C, H, W); None when it must run as it is."""
    if not state.active or not _is_plain(conv) or torch._C._is_any_autocast_enabled() or not _splits(conv, x):
        return None
    mode = pause()
    try:
        return _convolve(conv, x) if ours_on_top() else None
    finally:
        resume(mode)


def _casts_weight_at_most(conv: Any, x: Tensor) -> bool:
    """True when autocast is off, or leaves `x` and finds nothing to cast but a trainable weight."""
    if not x.is_meta and not torch._C._is_any_autocast_enabled():
        return True
    dtype = autocast_dtype(x)
    if dtype is None:
        return True
    return x.dtype is dtype and conv.bias is None and conv.weight.requires_grad


def _splits(conv: Any, x: Tensor) -> bool:
    large = x.dim() == 4 and x.nbytes >= SPLIT_MIN_BYTES
    return large and x.requires_grad and conv.weight.requires_grad and x.dtype is conv.weight.dtype


def _convolve(conv: Any, x: Tensor) -> Tensor:
    if x.dtype is not conv.weight.dtype:
        return _convolve_cast(conv, x)
    if _splits(conv, x):
        split: Tensor = SplitConv.apply(x, conv.weight, conv.bias, _geometry(conv))
        return split
    y = nn.Conv2d.forward(conv, x)
    if y.requires_grad:
        record_dear(y, lambda: (_CONVOLUTION, _arguments(conv, x)))
    return y


def _convolve_cast(conv: Any, x: Tensor) -> Tensor:
    """The convolution under autocast, which casts the weight, once for all its uses; `pack` meets that copy."""
    state.casting = conv.weight
    try:
        y = nn.Conv2d.forward(conv, x)
    finally:
        state.casting = None
    record_dear(y, lambda: (_convolve_as, (refer(x), refer(conv.weight), *_geometry(conv))))
    return y


def _convolve_as(x: Tensor, weight: Tensor, *geometry: Any) -> Tensor:
    return _CONVOLUTION(x, weight.to(x.dtype), None, *geometry)  # type: ignore[no-any-return]


def _is_small(conv: Any, x: Tensor) -> bool:
    """True when neither what goes in nor what comes out is worth a recipe."""
    limit = registry.small_bytes
    if x.untyped_storage().nbytes() >= limit:
        return False
    (rows, columns), size = conv.stride, x.size()
    return size[0] * conv.out_channels * (size[2] // rows + 1) * (size[3] // columns + 1) * x.element_size() < limit  # type: ignore[no-any-return]


def _is_plain(conv: nn.Module) -> bool:
    return conv.__class__ is nn.Conv2d and conv.padding_mode == "zeros" and type(conv.padding) is tuple


def _arguments(conv: Any, x: Tensor) -> tuple[Any, ...]:
    bias = None if conv.bias is None else refer(conv.bias)
    return refer(x), refer(conv.weight), bias, *_geometry(conv)


def _geometry(conv: Any) -> tuple[Any, ...]:
    return conv.stride, conv.padding, conv.dilation, False, (0, 0), conv.groups
