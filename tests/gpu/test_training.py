"""Whole trainings on a CUDA device, in mixed precision as people run them. Skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.conftest import both_modes
from tests.integration.running import train, unequal
from yolo_ckpt.attachment import is_planned

pytest.importorskip("ultralytics")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def on_cuda(arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A short run in mixed precision, without the host's check of it, which downloads weights."""
    import ultralytics.engine.trainer

    monkeypatch.setattr(ultralytics.engine.trainer, "check_amp", lambda _: True)
    return {**arguments, "device": 0, "amp": True}


@both_modes
def test_the_same_run(ckpt: str, on_cuda: dict[str, Any]) -> None:
    stock, again = train(on_cuda, "stock"), train(on_cuda, "stock")
    if unequal(stock, again):
        pytest.skip(f"stock does not repeat itself here: {unequal(stock, again)[:3]}")
    planned = train(on_cuda, ckpt)
    assert is_planned(planned["trainer"].model)
    assert unequal(stock, planned) == []


def test_the_report_has_what_the_allocator_says(on_cuda: dict[str, Any]) -> None:
    import json

    planned = train(on_cuda, "full")
    report = json.loads((planned["trainer"].save_dir / "ckpt_report.json").read_text(encoding="utf-8"))
    assert 0 < report["allocated_bytes"] <= report["reserved_bytes"]
    assert report["device"] == torch.cuda.get_device_name()


def test_autobatch_profiles_the_planned_model(on_cuda: dict[str, Any]) -> None:
    planned = train({**on_cuda, "batch": 0.05, "deterministic": False}, "full")
    assert is_planned(planned["trainer"].model)
    assert planned["trainer"].batch_size >= 1


def test_auto_plans_for_a_budget_on_the_device(on_cuda: dict[str, Any]) -> None:
    given = {**on_cuda, "imgsz": 640, "epochs": 1, "val": False}
    stock, planned = train(given, "stock"), train(given, "auto", ckpt_budget="700MiB")
    plan = type(planned["trainer"])._yolo_ckpt_run.plan
    assert {s.action for s in plan.stages} > {"save"}
    assert plan.peak_bytes <= 700 * 2**20
    assert unequal(stock, planned) == []
