"""Every model that the installed host describes: one training step with and without a plan, equal to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import yolo_ckpt
from tests.conftest import both_modes, host_model

ROOT = Path(pytest.importorskip("ultralytics").__file__).parent / "cfg" / "models"
MODELS = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.yaml"))


@both_modes
@pytest.mark.parametrize("name", MODELS)
def test_one_step_is_equal(name: str, ckpt: str, tmp_path: Path) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    path = tmp_path / Path(name).name
    path.write_text(text.replace("DEFAULT", "null"), encoding="utf-8")  # torchvision backbones without a download
    model = host_model(str(path))
    plan = yolo_ckpt.plan(model, imgsz=128, batch=2, ckpt=ckpt)
    assert not [stage for stage in plan.stages if stage.reason]
    report = yolo_ckpt.verify(model, plan, imgsz=128, batch=2, steps=1)
    assert report.tensors > len(list(model.parameters()))
    assert report.stages == len(plan.stages)


@both_modes
@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo12n.yaml", "yolov9t.yaml"])
def test_one_step_with_bf16_autocast(name: str, ckpt: str) -> None:
    model = host_model(name)
    plan = yolo_ckpt.plan(model, imgsz=128, batch=2, ckpt=ckpt)
    with torch.autocast("cpu", torch.bfloat16):
        yolo_ckpt.verify(model, plan, imgsz=128, batch=2, steps=1)
