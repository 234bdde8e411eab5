"""`yolo-ckpt plan` and `yolo-ckpt fit`: answers about a model before it is trained, by forecast alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.budget import extra_bytes
from yolo_ckpt.integration.cloud import CloudFit, fit_cloud
from yolo_ckpt.integration.conditions import CUDA_BYTES, Conditions
from yolo_ckpt.integration.fit import MODES, SIZES, Fit, Fits
from yolo_ckpt.integration.forecast import AMP, Forecast
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.planning.build import added_share, recomputed_flops
from yolo_ckpt.planning.cards import usable_bytes
from yolo_ckpt.planning.times import TYPICAL
from yolo_ckpt.reporting.progress import Tell, untold
from yolo_ckpt.settings import Settings, check_budget


@dataclass(frozen=True, kw_only=True)
class Look:
    """A plan and what is forecast for a training step with it.

    Attributes:
        plan: The plan; its `peak_bytes` counts everything.
        stock: The step without it, as simulated.
        planned: The step with it.
        extra_bytes: Optimizer, averaged model, and on CUDA what the allocator gives out beyond tensors.
        budget_bytes: What was asked for; None where nothing was.
        recomputed_flops: Operations that each stage's backward pass has beyond stock's.
    """

    plan: Plan
    stock: Forecast
    planned: Forecast
    extra_bytes: int
    budget_bytes: int | None
    recomputed_flops: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is planned for.

    Attributes:
        budget_bytes: Of the device; None where none was given.
        device: `cuda` for a GPU that was named, else `cpu`.
        amp: Half precision, as the host trains on CUDA by default.
    """

    budget_bytes: int | None
    device: str
    amp: torch.dtype | None

    @classmethod
    def of(cls, *, gpu: str, budget: str | None, amp: str) -> Target:
        """From the options `gpu=`, `ckpt_budget=` and `amp=`, which may be empty.

        Raises:
            SettingsError: One of them is wrong, or the budget is a share of nothing.
        """
        if amp and amp not in AMP:
            raise SettingsError(f"amp={amp} is not known; use one of {', '.join(AMP)}")
        total = usable_bytes(gpu) if gpu else None
        asked = None if budget is None else check_budget(budget)
        if asked is not None and asked < 1:
            if total is None:
                raise SettingsError(
                    f"ckpt_budget={budget} is a share; say of what with gpu=, or give a size such as 22GiB"
                )
            asked *= total
        room = asked if asked is not None else total
        device = "cuda" if gpu else "cpu"
        return cls(
            budget_bytes=None if room is None else int(room),
            device=device,
            amp=AMP[amp] if amp else torch.float16 if gpu else None,
        )


def extra_of(model: nn.Module, target: Target) -> int:
    """What a run has alive besides its step, with the largest optimizer state of the host's optimizers."""
    return extra_bytes(model, "") + (CUDA_BYTES if target.device == "cuda" else 0)


def look(model: nn.Module, flags: Mapping[str, str], target: Target, *, imgsz: int, batch: int, objects: int) -> Look:
    """The plan that `flags` ask for, with its forecast.

    Raises:
        RequestError: The flags do not fit the model, or no plan fits the budget.
    """
    settings = Settings.from_mapping(flags)
    conditions = _conditions(model, target, imgsz, batch, objects, settings)
    extra = conditions.extra_bytes
    if settings.ckpt == "auto" and target.budget_bytes is not None:
        found = auto_plan(model, conditions)
        return Look(
            plan=found.plan, stock=found.stock, planned=found.planned, extra_bytes=extra,
            budget_bytes=target.budget_bytes, recomputed_flops=recomputed_flops(found.planned, found.stock),
        )  # fmt: skip
    simulated = conditions.simulated(model)
    plan = make_plan(model, settings, imgsz=imgsz, batch=batch)
    stock, planned = simulated.step(None), simulated.step(plan)
    share = added_share(plan, planned, stock, [TYPICAL.estimate(work) for work in simulated.work()])
    plan = replace(plan, peak_bytes=planned.peak_bytes + extra, added_share=share)
    return Look(
        plan=plan, stock=stock, planned=planned, extra_bytes=extra, budget_bytes=target.budget_bytes,
        recomputed_flops=recomputed_flops(planned, stock),
    )  # fmt: skip


def fit(model: nn.Module, target: Target, *, objects: int, tell: Tell = untold) -> list[Fit]:
    """What fits, for stock and each fixed mode.

    Raises:
        SettingsError: No budget was given.
    """
    if target.budget_bytes is None:
        raise SettingsError("fit needs gpu= (a name, or a size such as 22GiB) or ckpt_budget=")
    fits = Fits(model, _conditions(model, target, SIZES[0], 1, objects, Settings()), tell)
    return [fits.fit(ckpt) for ckpt in MODES]


def cloud(
    model: nn.Module,
    *,
    amp: str,
    imgsz: int,
    batch: int,
    objects: int,
    arguments: Mapping[str, str],
    tell: Tell = untold,
) -> CloudFit:
    """What fits each GPU type of managed cloud training; `arguments` go on to the command that starts it.

    Raises:
        RequestError: The GPU types are not known, or `amp` is not.
    """
    target = Target.of(gpu="1GiB", budget=None, amp=amp)
    return fit_cloud(model, _conditions(model, target, imgsz, batch, objects, Settings()), arguments, tell)


def _conditions(
    model: nn.Module, target: Target, imgsz: int, batch: int, objects: int, settings: Settings
) -> Conditions:
    return Conditions(
        imgsz=imgsz, batch=batch, budget_bytes=target.budget_bytes or 0, stages=settings.ckpt_stages,
        attention=settings.ckpt_attention, objects=objects, amp=target.amp,
        device=target.device, extra_bytes=extra_of(model, target),
    )  # fmt: skip
