"""One training step, measured: peak live bytes, what each stage leaves behind, and milliseconds on a real device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.measuring.ledger import Ledger, LiveTensor
from yolo_ckpt.measuring.live import bytes_of, tensors_in
from yolo_ckpt.measuring.trace import BACKWARD, marked
from yolo_ckpt.measuring.watch import watched


@dataclass(frozen=True, kw_only=True)
class StageBytes:
    """What the forward pass of one stage adds.

    Attributes:
        index: Position in the model.
        kind: Class name.
        kept_bytes: Live bytes after the stage minus those before: its output and what it keeps for backward.
    """

    index: int
    kind: str
    kept_bytes: int


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One training step. Optimizer state is not part of it.

    Attributes:
        device: Where it ran; `meta` is a simulation.
        peak_bytes: Most live bytes at once: parameters, buffers, gradients, input, activations, temporaries.
        fixed_bytes: Parameters, buffers and gradients alone.
        forward_bytes: Live bytes between the forward and the backward pass.
        step_ms: Time of a second, untracked step; None on meta.
        stages: Per stage.
        at_peak: Every storage that is alive at the peak, the largest first.
    """

    device: str
    peak_bytes: int
    fixed_bytes: int
    forward_bytes: int
    step_ms: float | None
    stages: tuple[StageBytes, ...]
    at_peak: tuple[LiveTensor, ...]


def training_step(model: nn.Module, images: Tensor) -> None:
    """Forward, and backward from a gradient of ones on every output that needs one."""
    _backward(_outputs(model, images))


def _outputs(model: nn.Module, images: Tensor) -> list[Tensor]:
    return [t for t in tensors_in(model(images)) if t.requires_grad]


def _backward(outputs: list[Tensor]) -> None:
    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


def measure_step(model: nn.Module, stages: Sequence[nn.Module], images: Tensor) -> Measurement:
    """Measure one step of a model in train mode on `images` (B, C, H, W), on the device that both are on.

    The model is used as it is: running statistics move as in training, and gradients are left in `.grad`.
    """
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    fixed = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters() if p.grad is not None)]
    kept: dict[int, int] = {}
    with Ledger() as live:
        live.add([*fixed, images])

        def before(index: int) -> None:
            kept[index] = kept.get(index, 0) - live.current_bytes

        def after(index: int, _: Any) -> None:
            kept[index] = kept.get(index, 0) + live.current_bytes

        with marked(stages, live), watched(stages, before, after):
            outputs = _outputs(model, images)
            forward_bytes = live.current_bytes
            live.mark(BACKWARD, len(stages))
            _backward(outputs)
            del outputs
    return Measurement(
        device=images.device.type,
        peak_bytes=live.peak_bytes,
        fixed_bytes=bytes_of(fixed),
        forward_bytes=forward_bytes,
        step_ms=None if images.device.type == "meta" else _timed_ms(model, images),
        stages=tuple(
            StageBytes(index=i, kind=s.__class__.__name__, kept_bytes=kept.get(i, 0)) for i, s in enumerate(stages)
        ),
        at_peak=live.at_peak(),
    )


def _timed_ms(model: nn.Module, images: Tensor) -> float:
    def now() -> float:
        if images.device.type == "cuda":
            torch.cuda.synchronize(images.device)
        return time.perf_counter()

    start = now()
    training_step(model, images)
    return (now() - start) * 1e3
