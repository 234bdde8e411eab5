"""From settings and a model to a plan."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from yolo_ckpt.errors import RequestError
from yolo_ckpt.plan import Plan
from yolo_ckpt.planning import fixed_plan, select_stages
from yolo_ckpt.settings import Settings
from yolo_ckpt.stages import facts_of


def make_plan(model: nn.Module, settings: Settings, *, imgsz: int, batch: int) -> Plan:
    """The plan that `settings` ask for, for inputs (batch, channels, imgsz, imgsz). The model stays as it is.

    Raises:
        SettingsError: `ckpt_stages` names no stage.
        PlanError: The plan file is for another model, or cannot be read.
        RequestError: The model has no stages, or a size is not positive.
    """
    if imgsz < 1 or batch < 1:
        raise RequestError(f"imgsz={imgsz} batch={batch}: both must be at least 1")
    facts = facts_of(model)
    if settings.plan_file is not None:
        plan = Plan.load(settings.plan_file)
        plan.check_model([stage.kind for stage in facts])
        return plan
    action = {"off": "save", "auto": "selective"}.get(settings.ckpt, settings.ckpt)
    selected = select_stages(settings.ckpt_stages, facts)
    plan = fixed_plan(facts, action, selected, ckpt=settings.ckpt, imgsz=imgsz, batch=batch)
    return replace(plan, attention=settings.ckpt_attention)
