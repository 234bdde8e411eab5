"""What a plan is made for: sizes, budget, and everything that a training step's memory depends on besides the plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from yolo_ckpt.integration.batches import Size
from yolo_ckpt.integration.forecast import OBJECTS, Simulated

# On CUDA the allocator gave out 113 to 237 MiB more than a step's tensors in 13 of 15 steps of 5 models (H200,
# benchmarks/results), and 1.1 GiB in two of one model at 2048, which its largest convolutions take for themselves.
CUDA_BYTES = 240 << 20
SQUARE = (1.0, 1.0)
STRIDE = 32  # of the model's last level


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The request behind a plan.

    Attributes:
        imgsz: Largest side of the images in pixels.
        batch: Images per step on one device.
        budget_bytes: What a step may have alive.
        stages: As the flag `ckpt_stages`.
        attention: As the flag `ckpt_attention`.
        objects: Objects in each image.
        amp: The half precision of mixed-precision training; None without.
        device: `cpu` or `cuda`: whose kernels the step is simulated with.
        sides: Height and width of the images as shares of `imgsz`; both become multiples of 32, as the host's loader
            makes them.
        extra_bytes: Alive besides the step: optimizer, averaged model, what the device takes for itself.
    """

    imgsz: int
    batch: int
    budget_bytes: int
    stages: str = "all"
    attention: str = "auto"
    objects: int = OBJECTS
    amp: torch.dtype | None = None
    device: str = "cpu"
    sides: tuple[float, float] = SQUARE
    extra_bytes: int = 0

    @property
    def size(self) -> Size:
        """Of the images: one side, or height and width."""
        if self.sides == SQUARE:
            return self.imgsz
        height, width = (max(math.ceil(self.imgsz * s / STRIDE - 1e-6), 1) * STRIDE for s in self.sides)
        return height, width

    def simulated(self, model: nn.Module) -> Simulated:
        """Steps of `model` under these conditions."""
        return Simulated(
            model, imgsz=self.size, batch=self.batch, objects=self.objects, amp=self.amp, device=self.device
        )

    def on(self, device: torch.device, model: nn.Module) -> Conditions:
        """With what `device` takes for itself, measured there."""
        if device.type != "cuda":
            return self
        own = max(CUDA_BYTES, self.simulated(model).workspace_bytes(device))
        return replace(self, extra_bytes=self.extra_bytes + own)
