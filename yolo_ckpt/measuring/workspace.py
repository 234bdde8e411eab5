"""Memory that CUDA convolutions take for themselves while they run, measured on the device.

cuDNN chooses its algorithm by shape and type, so there is no formula: the largest convolutions of a model are run by
themselves, forward and backward, and what the allocator gave out beyond their tensors is their workspace.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

TRIED = 6  # of the largest convolutions


@dataclass(frozen=True)
class ConvCall:
    """One call of a convolution.

    Attributes:
        module: The convolution; its parameters may be on meta.
        shape: Of its input, (B, C, H, W).
        elements: Of its input and output together.
        trains_input: Its input has a gradient.
    """

    module: nn.Conv2d
    shape: torch.Size
    elements: int
    trains_input: bool


def largest_convolutions(model: nn.Module, forward: Callable[[], Any], count: int = TRIED) -> list[ConvCall]:
    """The `count` calls of convolutions in `forward()` with the most elements; every kind of call once."""
    calls: dict[tuple[Any, ...], ConvCall] = {}

    def note(conv: Any, args: Any, out: Any) -> None:
        x = args[0]
        key = (x.shape, out.shape, conv.kernel_size, conv.stride, conv.groups)
        calls.setdefault(key, ConvCall(conv, x.shape, x.numel() + out.numel(), x.size(1) > 4))

    hooks = [m.register_forward_hook(note) for m in model.modules() if type(m) is nn.Conv2d]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    return sorted(calls.values(), key=lambda c: -c.elements)[:count]


def workspace_bytes(calls: Sequence[ConvCall], device: torch.device, dtype: torch.dtype) -> int:
    """The most that any of `calls` takes beyond its tensors on the CUDA `device` in `dtype`. A call whose tensors do
    not fit is left out."""
    return max((_workspace(call, device, dtype) for call in calls), default=0)


def _workspace(call: ConvCall, device: torch.device, dtype: torch.dtype) -> int:
    try:
        return _measured(call, device, dtype)
    except torch.OutOfMemoryError:
        return 0
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def _measured(call: ConvCall, device: torch.device, dtype: torch.dtype) -> int:
    conv = call.module
    weight = torch.randn(conv.weight.shape, device=device, dtype=dtype)
    x = torch.randn(call.shape, device=device, dtype=dtype)
    geometry = (conv.stride, conv.padding, conv.dilation, False, (0, 0), conv.groups)
    convolution = torch.ops.aten.convolution.default
    y, forward = _beyond(device, lambda: convolution(x, weight, None, *geometry))
    g = torch.randn_like(y)
    wanted = [call.trains_input, True, False]
    _, backward = _beyond(
        device, lambda: torch.ops.aten.convolution_backward.default(g, x, weight, None, *geometry, wanted)
    )
    return max(forward, backward)


def _beyond(device: torch.device, run: Callable[[], Any]) -> tuple[Any, int]:
    """What `run()` returns, and the most that was allocated meanwhile beyond that."""
    torch.cuda.reset_peak_memory_stats(device)
    out = run()
    torch.cuda.synchronize(device)
    return out, torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
