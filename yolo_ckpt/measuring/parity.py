"""The state of a model after training steps, and the first place where two states differ by a bit."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

State = Mapping[str, Tensor]


def snapshot(model: nn.Module, outputs: list[list[Tensor]]) -> State:
    """Copies of all outputs of all steps, gradients, parameters, buffers and the random state, by name, in the order in
    which a difference would arise."""
    state = {f"output {j} of step {i}": t for i, step in enumerate(outputs) for j, t in enumerate(step)}
    state |= {f"buffer {k}": v for k, v in model.named_buffers()}
    state |= {f"gradient of {k}": v.grad for k, v in model.named_parameters() if v.grad is not None}
    state |= {f"parameter {k}": v for k, v in model.named_parameters()}
    state["random state of the CPU"] = torch.get_rng_state()
    if torch.cuda.is_available():
        state["random state of CUDA"] = torch.cuda.get_rng_state()
    return {k: v.detach().clone() for k, v in state.items()}


def first_difference(expected: State, found: State) -> str | None:
    """What differs first, in words; None when all is equal to the last bit (a NaN equals a NaN of the same bits)."""
    missing = [k for k in expected if k not in found] + [k for k in found if k not in expected]
    if missing:
        return f"{missing[0]} is only in one of the two runs"
    return next((f"{k}: {_describe(v, found[k])}" for k, v in expected.items() if not _same_bits(v, found[k])), None)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype is not b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    return bool(((a == b) & (torch.signbit(a) == torch.signbit(b)) | (torch.isnan(a) & torch.isnan(b))).all())


def _describe(a: Tensor, b: Tensor) -> str:
    if a.shape != b.shape or a.dtype is not b.dtype:
        return f"{tuple(a.shape)} {a.dtype} without the plan, {tuple(b.shape)} {b.dtype} with it"
    unequal = ~((a == b) | (torch.isnan(a) & torch.isnan(b))) if a.dtype.is_floating_point else a != b
    largest = (a.double() - b.double()).abs().max().item() if a.numel() else 0.0
    return f"{int(unequal.sum())} of {a.numel()} elements differ, by up to {largest:.3g}"
