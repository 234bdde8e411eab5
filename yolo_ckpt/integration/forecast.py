"""What a training step will need, before it is run: the host's model, its loss and its optimizer, simulated.

Nothing is allocated, so any size can be asked for on any machine.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt import attachment
from yolo_ckpt.integration.anchors import Masks
from yolo_ckpt.integration.batches import Size, height_width, made_batch
from yolo_ckpt.integration.compat import on_meta
from yolo_ckpt.measuring import bytes_of, tensors_in
from yolo_ckpt.measuring.autocast import MetaAutocast
from yolo_ckpt.measuring.simulation import Simulation
from yolo_ckpt.measuring.trace import Counted, Window, traced_step
from yolo_ckpt.measuring.work import Work, stage_work
from yolo_ckpt.measuring.workspace import largest_convolutions, workspace_bytes
from yolo_ckpt.plan import Plan
from yolo_ckpt.remat import simulated_for
from yolo_ckpt.stages import stages_of, unwrap

OBJECTS = 30  # per image, where nothing is known of the data
AMP = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}  # mixed precision by name


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One training step, simulated.

    Attributes:
        peak_bytes: The most that is alive at once: everything below, activations and temporaries.
        fixed_bytes: Parameters, buffers and gradients.
        batch_bytes: Images and targets.
        windows: The step in parts.
    """

    peak_bytes: int
    fixed_bytes: int
    batch_bytes: int
    windows: tuple[Window, ...]

    @property
    def kept_bytes(self) -> tuple[int, ...]:
        """What each stage leaves in memory between its forward and its backward pass."""
        starts = [w.start_bytes for w in self.windows if w.phase != "backward"]
        return tuple(after - before for before, after in pairwise(starts))


class Simulated:
    """Training steps of one model with its loss, at one size, on the meta device.

    Args:
        model: A model of the host, on any device. It stays as it is.
        imgsz: Side of the square images in pixels, or their height and width.
        batch: Images per step.
        objects: Objects in each image.
        amp: The half precision of mixed-precision training; None without.
        device: `cpu` or `cuda`: which it is for. Their kernels need different temporaries.

    Raises:
        RequestError: The model has no stages, or nothing is known of its task.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        imgsz: Size,
        batch: int,
        objects: int = OBJECTS,
        amp: torch.dtype | None = None,
        device: str = "cpu",
    ) -> None:
        self.imgsz, self.batch, self._amp, self._cuda = imgsz, batch, amp, device == "cuda"
        self._model = unwrap(model)
        self._made = (
            made_batch(self._model, imgsz=imgsz, batch=batch, objects=objects, device="cpu", images_on="meta")
            if hasattr(self._model, "loss")
            else {"img": torch.empty(batch, 3, *height_width(imgsz), device="meta")}
        )

    def step(self, plan: Plan | None) -> Forecast:
        """One step with `plan`, or stock."""
        trial = meta_copy(self._model)
        masks = Masks(trial, self._made)
        with self._simulation(masks) as data:
            if hasattr(trial, "init_criterion"):
                trial.criterion = trial.init_criterion()
                masks.follow(trial.criterion)
            if plan is not None:
                attachment.apply(trial, plan)
            for parameter in trial.parameters():
                parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
            fixed = [*trial.parameters(), *trial.buffers(), *(p.grad for p in trial.parameters() if p.grad is not None)]
            with Counted() as live:
                live.add([*fixed, *tensors_in(data)])
                windows = traced_step(live, stages_of(trial), lambda: self._loss(trial, data))
        return Forecast(
            peak_bytes=live.peak_bytes,
            fixed_bytes=bytes_of(fixed),
            batch_bytes=bytes_of(tensors_in(data)),
            windows=tuple(windows),
        )

    def workspace_bytes(self, device: torch.device) -> int:
        """What the largest convolutions need for themselves on `device`, measured there; 0 for the CPU."""
        if device.type != "cuda":
            return 0
        trial = meta_copy(self._model)
        with self._simulation(Masks(trial, self._made)) as data, torch.no_grad():
            calls = largest_convolutions(trial, lambda: self._cast(trial, data["img"]))
        return workspace_bytes(calls, device, self._amp or torch.float32)

    def work(self) -> list[Work]:
        """What each stage's forward pass computes and moves."""
        trial = meta_copy(self._model)
        with self._simulation(Masks(trial, self._made)) as data, torch.no_grad():
            return stage_work(stages_of(trial), lambda: self._cast(trial, data["img"]))

    def _loss(self, model: Any, data: dict[str, Tensor]) -> Tensor:
        if hasattr(model, "loss"):
            return self._cast(model, data)[0].sum()  # type: ignore[no-any-return]
        outputs = [t for t in tensors_in(self._cast(model, data["img"])) if t.requires_grad]
        return sum((t.sum() for t in outputs), outputs[0].new_zeros(()))

    def _cast(self, model: Any, given: Any) -> Any:
        with MetaAutocast(self._amp) if self._amp is not None else contextlib.nullcontext():
            return model(given)

    @contextlib.contextmanager
    def _simulation(self, masks: Masks) -> Iterator[dict[str, Tensor]]:
        simulation = Simulation(masks.count_true)
        with on_meta(), simulation, simulated_for(cuda=self._cuda, autocast=self._amp):
            yield {name: t if t.is_meta else simulation.lend(t) for name, t in self._made.items()}


def meta_copy(model: nn.Module) -> Any:
    """A copy of `model` (without wrappers and without any plan) on the meta device, in train mode; nothing of its size
    is allocated."""
    model = unwrap(model)
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    criterion = model.__dict__.get("criterion")
    memo[id(criterion)] = None  # made again for the copy's device
    trial: Any = attachment.remove(copy.deepcopy(model, memo)).train()
    strides, head = getattr(trial, "stride", None), stages_of(trial)[-1]
    if isinstance(strides, Tensor) and not strides.is_meta and isinstance(getattr(head, "stride", None), Tensor):
        head.stride = strides.clone()  # a host's model on meta has no content in the head's, which the loss reads
    return trial
