"""Train Ultralytics YOLO at full resolution on one GPU: exact activation recomputation, planned."""

from __future__ import annotations

from yolo_ckpt.api import VerifyReport, measure, plan, verify
from yolo_ckpt.attachment import apply, remove
from yolo_ckpt.errors import (
    BudgetInfeasibleError,
    ConvertError,
    ParityError,
    PlanError,
    RematError,
    RequestError,
    SampleError,
    SettingsError,
    YoloCkptError,
)
from yolo_ckpt.integration import attach
from yolo_ckpt.measuring import Measurement
from yolo_ckpt.plan import Plan, StagePlan
from yolo_ckpt.settings import Settings

__all__ = [
    "BudgetInfeasibleError",
    "ConvertError",
    "Measurement",
    "ParityError",
    "Plan",
    "PlanError",
    "RematError",
    "RequestError",
    "SampleError",
    "Settings",
    "SettingsError",
    "StagePlan",
    "VerifyReport",
    "YoloCkptError",
    "apply",
    "attach",
    "measure",
    "plan",
    "remove",
    "verify",
]

__version__ = "0.1.0"
