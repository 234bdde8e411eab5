"""What meta tensors stand for while a step is simulated: the CPU or a CUDA device, with autocast or without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

_cuda = False
_autocast: torch.dtype | None = None


@contextlib.contextmanager
def simulated_for(*, cuda: bool, autocast: torch.dtype | None = None) -> Iterator[None]:
    """Inside, meta tensors stand for tensors on a CUDA device, or on the CPU, and are cast as autocast to that type
    would."""
    global _cuda, _autocast
    before = _cuda, _autocast
    _cuda, _autocast = cuda, autocast
    try:
        yield
    finally:
        _cuda, _autocast = before


def is_on_cpu(tensor: Tensor) -> bool:
    """True for a tensor on the CPU, and for a meta tensor that stands for one."""
    return tensor.is_cpu or (tensor.is_meta and not _cuda)


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """What autocast makes of tensors such as `tensor` before a convolution; None where it is off."""
    if tensor.is_meta:
        return _autocast
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
