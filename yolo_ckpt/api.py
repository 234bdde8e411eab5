"""The Python face: `plan`, `apply`, `remove`, `measure`, `verify`; `attach` is in the integration."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt import attachment
from yolo_ckpt.errors import ParityError, RequestError
from yolo_ckpt.hotspots import rounded_parts
from yolo_ckpt.measuring import Measurement, first_difference, measure_step, snapshot, tensors_in
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.settings import Settings
from yolo_ckpt.stages import stages_of

__all__ = ["VerifyReport", "measure", "plan", "verify"]


def plan(
    model: nn.Module, *, imgsz: int, batch: int, ckpt: str = "auto", budget: str | None = None, **settings: Any
) -> Plan:
    """Decide what is done with each stage of `model`, which stays as it is.

    Args:
        model: A module with stages, as Ultralytics builds them.
        imgsz: Side of the square input in pixels.
        batch: Images per step.
        ckpt: `off`, `selective`, `full`, `auto` (the plan with the least added time within the budget) or the path of
            a plan file.
        budget: As the flag `ckpt_budget`: with `ckpt="auto"`, what a training step with its loss may have alive,
            gradients included, optimizer and averages not. A share is one of what is free on the model's device.
            Without a budget, `auto` is `selective`.
        **settings: Other flags, for example `ckpt_stages="backbone"`.

    Raises:
        SettingsError: A setting is wrong, or names no stage.
        PlanError: The plan file is for another model, or cannot be read.
        RequestError: The model has no stages, or a size is not positive.
        BudgetInfeasibleError: No plan fits the budget.
    """
    made = Settings.from_mapping({"ckpt": ckpt, "ckpt_budget": budget, **settings})
    fixed = make_plan(model, made, imgsz=imgsz, batch=batch)
    if made.ckpt != "auto" or budget is None:
        return fixed
    from yolo_ckpt.integration.auto import auto_plan
    from yolo_ckpt.integration.budget import budget_bytes
    from yolo_ckpt.integration.clock import Measured
    from yolo_ckpt.integration.conditions import Conditions

    device = next(model.parameters()).device
    room = budget_bytes(made, device)
    assert room is not None
    conditions = Conditions(
        imgsz=imgsz, batch=batch, budget_bytes=room, stages=made.ckpt_stages, attention=made.ckpt_attention,
        device=device.type,
    )  # fmt: skip
    times = None
    if device.type == "cuda":
        work = replace(conditions, batch=1).simulated(model).work()
        times = Measured(model, work, imgsz=imgsz, amp=None, device=device)
    return auto_plan(model, conditions.on(device, model), times).plan


def measure(model: nn.Module, *, imgsz: int, batch: int, plan: Plan | None = None) -> Measurement:
    """Measure one training step of a copy of `model`, on the model's device, which may be meta.

    Args:
        model: A module with stages. It stays as it is; a copy of it is made on its device.
        imgsz: Side of the square input in pixels.
        batch: Images per step.
        plan: The plan to measure; None for the model as it is, with the plan that is on it, if any.

    Raises:
        PlanError: The plan is for another model.
        RequestError: The model has no stages, or a size is not positive.
    """
    trial = copy.deepcopy(model).train()
    if plan is not None:
        attachment.apply(trial, plan)
    with _random_state_kept():
        return measure_step(trial, stages_of(trial), _images(trial, imgsz, batch))


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """The certificate of `verify`: how many tensors were equal to the last bit, and after how many steps.

    Attributes:
        steps: Training steps that were compared.
        tensors: Outputs, buffers, gradients, parameters and random states that were compared.
        device: Where they ran.
        stages: Stages that the plan changes.
    """

    steps: int
    tensors: int
    device: str
    stages: int


def verify(model: nn.Module, plan: Plan, *, imgsz: int, batch: int, steps: int = 2) -> VerifyReport:
    """Run `steps` training steps with and without `plan`, on copies of `model`, and compare them bit for bit.

    Every step gets new noise images, gradients add up, and a plain gradient step follows each, so a difference in any
    of them reaches what is compared. On CUDA, equality needs deterministic kernels, as the host sets them by default.

    Raises:
        ParityError: They differ; the message names the first difference.
        PlanError: The plan is for another model.
        RequestError: The model is on the meta device, has no stages, or a size is not positive.
    """
    device = next(model.parameters()).device
    if device.type == "meta":
        raise RequestError("verify needs numbers, and the model is on the meta device; move it to a real one")
    with _random_state_kept():
        stock = _run(attachment.remove(copy.deepcopy(model)), imgsz, batch, steps)
        trial = attachment.apply(copy.deepcopy(model), plan)
        planned = _run(trial, imgsz, batch, steps)
    difference, rounded = first_difference(stock, planned), rounded_parts(trial)
    if difference is not None and rounded:
        raise ParityError(
            f"ckpt={plan.ckpt}: attention ran fused in {', '.join(rounded)}, which rounds otherwise ({difference}); "
            f"verify with ckpt_attention=stock"
        )
    if difference is not None:
        raise ParityError(f"ckpt={plan.ckpt} is not the same training: {difference}; please report this with the model")
    return VerifyReport(steps=steps, tensors=len(stock), device=str(device), stages=len(plan.planned))


def _run(model: nn.Module, imgsz: int, batch: int, steps: int) -> Any:
    model.train()
    outputs = []
    torch.manual_seed(0)
    for _ in range(steps):
        out = [t for t in tensors_in(model(_images(model, imgsz, batch))) if t.requires_grad]
        torch.autograd.backward(out, [torch.randn_like(t) for t in out])
        outputs.append([t.detach().clone() for t in out])
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=1e-4)
    return snapshot(model, outputs)


def _images(model: nn.Module, imgsz: int, batch: int) -> Tensor:
    if imgsz < 1 or batch < 1:
        raise RequestError(f"imgsz={imgsz} batch={batch}: both must be at least 1")
    first = next(model.parameters())
    described = getattr(model, "yaml", None)
    channels = described.get("channels", 3) if isinstance(described, dict) else 3
    return torch.rand(batch, channels, imgsz, imgsz, device=first.device, dtype=first.dtype)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    with torch.random.fork_rng():
        yield
