"""Times of a model's stages for any batch: measured where the model is, or estimated."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn

from yolo_ckpt import attachment
from yolo_ckpt.integration.batches import Size, channels_of, height_width
from yolo_ckpt.measuring.timing import stage_forward_ms
from yolo_ckpt.measuring.work import Work
from yolo_ckpt.planning.times import TYPICAL, StageTime, measured_times
from yolo_ckpt.stages import stages_of, unwrap


class StageTimes(Protocol):
    """Forward passes of every stage.

    Attributes:
        measured: On the device; else estimated.
    """

    measured: bool

    def at(self, images: int) -> list[StageTime]:
        """With this many images in a step."""
        ...


class Estimated:
    """By the `work` of each stage, which was counted with `batch` images."""

    measured = False

    def __init__(self, work: Sequence[Work], batch: int) -> None:
        self._work, self._batch = work, batch

    def at(self, images: int) -> list[StageTime]:
        """With this many images in a step."""
        return [TYPICAL.estimate(one, images / self._batch) for one in self._work]


class Measured:
    """By forward passes of a copy of `model` on `device` with one image and with two: what starting the operators
    costs, and what each image costs. `work`, counted with one image, divides them into cheap and dear.

    They run when the first time is asked for. Where they do not fit, the times are estimated.
    """

    measured = True

    def __init__(
        self, model: nn.Module, work: Sequence[Work], *, imgsz: Size, amp: torch.dtype | None, device: torch.device
    ) -> None:
        self._model, self._work, self._imgsz, self._amp, self._device = model, work, imgsz, amp, device
        self._ms: list[tuple[float, float]] | None = None  # of each stage: fixed, and for each image

    def at(self, images: int) -> list[StageTime]:
        """With this many images in a step."""
        if self._ms is None and self.measured:
            self._measure()
        if self._ms is None:
            return Estimated(self._work, 1).at(images)
        return measured_times([fixed + images * each for fixed, each in self._ms], self._work)

    def _measure(self) -> None:
        trial = attachment.remove(copy.deepcopy(unwrap(self._model))).train()
        try:
            one, two = (self._forward_ms(trial, images) for images in (1, 2))
        except torch.OutOfMemoryError:
            self.measured = False
            torch.cuda.empty_cache()
            return
        each = [max(b - a, 0.0) for a, b in zip(one, two, strict=True)]
        self._ms = [(max(a - e, 0.0), e) for a, e in zip(one, each, strict=True)]

    def _forward_ms(self, model: Any, images: int) -> list[float]:
        generator = torch.Generator(self._device)  # the run's own random state stays
        size = (images, channels_of(model), *height_width(self._imgsz))
        noise = torch.rand(size, device=self._device, generator=generator)
        devices = [self._device] if self._device.type == "cuda" else []
        cast = torch.autocast(self._device.type, dtype=self._amp, enabled=self._amp is not None)
        with torch.no_grad(), torch.random.fork_rng(devices), cast:
            return stage_forward_ms(stages_of(model), lambda: model(noise), self._device)
