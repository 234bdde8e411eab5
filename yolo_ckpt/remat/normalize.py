"""Batch normalisation with the batch statistics it had: the same bits again, without touching running buffers.

On the CPU (and in simulation) the training kernel computes `alpha = weight * invstd`, `beta = bias - mean * alpha`
and then `input * alpha + beta`; the inference kernel runs the same loop with `invstd = 1 / sqrt(var + eps)`. With a
variance of one, an eps of zero and `alpha` passed as the weight, both are the same arithmetic. Other devices choose
among several kernels (cuDNN among them), so there the training kernel itself is run again, without running buffers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.errors import RematError
from yolo_ckpt.remat.simulated import is_on_cpu
from yolo_ckpt.remat.values import detached

_ones: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}


def _ones_like(mean: Tensor) -> Tensor:
    if mean.is_meta:  # not kept: it would count in the first simulated step alone
        return torch.ones(mean.shape, dtype=mean.dtype, device="meta")
    key = (mean.numel(), mean.dtype, mean.device)
    ones = _ones.get(key)
    if ones is None:
        ones = _ones[key] = torch.ones(mean.shape, dtype=mean.dtype, device=mean.device)
    return ones


class Norm:
    """The parameters and batch statistics of one batch normalisation, held for its replay."""

    __slots__ = (
        "_alpha",
        "bias",
        "cudnn",
        "eps",
        "invstd",
        "mean",
        "momentum",
        "remember_bytes",
        "same_loop",
        "versions",
        "weight",
        "z",
    )

    def __init__(
        self,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        invstd: Tensor,
        momentum: Any,
        eps: Any,
        cudnn: bool,
    ) -> None:
        self.weight, self.bias, self.mean, self.invstd = weight, bias, mean, invstd
        self.momentum, self.eps, self.cudnn = momentum, eps, cudnn  # what the training kernel was called with
        self.versions = self._versions()
        self.same_loop = (
            is_on_cpu(mean)
            and mean.dtype in (torch.float32, torch.float64)
            and all(t is None or t.is_contiguous() for t in (weight, bias))
        )
        self._alpha: Tensor | None = None
        self.remember_bytes = 0  # a replay leaves an output below this, the input of the activation, here for backward
        self.z: Tensor | None = None

    def _versions(self) -> tuple[int, int]:
        weight, bias = self.weight, self.bias
        return -1 if weight is None else weight._version, -1 if bias is None else bias._version

    def check(self) -> None:
        """Raise `RematError` when the affine parameters were changed since the forward pass."""
        if self.versions != self._versions():
            raise RematError(
                "the weight or bias of a batch normalisation was changed between the forward and the backward pass; "
                "run backward before the optimizer step"
            )

    def _scale(self) -> Tensor:
        if self._alpha is None:
            self._alpha = self.invstd if self.weight is None else self.invstd * self.weight
        return self._alpha

    def normalize(self, x: Tensor) -> Tensor:
        """The forward output for `x` (B, C, H, W), to the last bit. Call it without gradients."""
        self.check()
        if self.same_loop and _is_dense(x):
            ones = _ones_like(self.mean)
            return torch.native_batch_norm(x, self._scale(), self.bias, self.mean, ones, False, 0.0, 0.0)[0]
        return torch._batch_norm_impl_index(
            x, self.weight, self.bias, None, None, True, self.momentum, self.eps, self.cudnn
        )[0]

    def channels(self, start: int, stop: int) -> Norm:
        """The same for channels `start` to `stop`."""
        weight, bias = (None if t is None else t[start:stop] for t in (self.weight, self.bias))
        mean, invstd = self.mean[start:stop], self.invstd[start:stop]
        part = Norm(weight, bias, mean, invstd, self.momentum, self.eps, self.cudnn)
        part._alpha = self._scale()[start:stop]
        return part


def _is_dense(x: Tensor) -> bool:
    """True where inference and training run the same loop; for other layouts the CPU has other kernels."""
    return x.numel() > 0 and (
        x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
    )


def norm_of_call(op: Any, args: tuple[Any, ...], out: Any) -> Norm | None:
    """The `Norm` of a batch-norm operator call seen by the recorder; None for one in inference mode."""
    by_name = {a.name: args[i] if i < len(args) else None for i, a in enumerate(op._schema.arguments)}
    if not by_name.get("training", by_name.get("train")):
        return None
    eps = by_name.get("eps", by_name.get("epsilon"))
    momentum = by_name.get("momentum", by_name.get("exponential_average_factor"))
    native = "cudnn" not in op._schema.name and "miopen" not in op._schema.name
    weight, bias = (None if t is None else detached(t) for t in (by_name["weight"], by_name["bias"]))
    return Norm(weight, bias, out[1], out[2], momentum, eps, not native)
