"""`compile=True`: the compiler gets a budget, the model is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch import config

import yolo_ckpt
from yolo_ckpt.attachment import is_planned
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.compiled import CompilerBudget

ultralytics = pytest.importorskip("ultralytics")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []

    def log(message: str, *, warning: bool = False) -> None:
        lines.append(message)

    monkeypatch.setattr(compat, "log", log)
    return lines


@pytest.mark.parametrize(("ckpt", "budget"), [("selective", 0.5), ("auto", 0.5), ("full", 0.2)])
def test_the_compiler_gets_a_budget(
    ckpt: str, budget: float, arguments: dict[str, Any], logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling takes half a minute and is not what is tested here, so the host's own call does nothing."""
    monkeypatch.setattr("ultralytics.engine.trainer.attempt_compile", lambda model, **_: model)
    before = config.activation_memory_budget
    seen: list[tuple[float, bool]] = []
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt=ckpt)
    yolo.add_callback(
        "on_train_batch_end", lambda t: seen.append((config.activation_memory_budget, is_planned(t.model)))
    )
    yolo.train(**{**arguments, "imgsz": 64, "epochs": 1, "compile": True})
    assert set(seen) == {(budget, False)}
    assert config.activation_memory_budget == before
    assert len(logged) == 1
    assert "the compiler plans" in logged[0]
    assert not list(Path(arguments["project"], "run").glob("ckpt_*"))


def test_dropout_warns(logged: list[str]) -> None:
    CompilerBudget().warn(nn.Sequential(nn.Conv2d(3, 3, 1), nn.Dropout(0.0)))
    assert logged == []
    CompilerBudget().warn(nn.Sequential(nn.Conv2d(3, 3, 1), nn.Dropout(0.1)))
    assert "pytorch#190758" in logged[0]


def test_a_budget_that_was_never_set_is_not_restored() -> None:
    before = config.activation_memory_budget
    CompilerBudget().restore()
    assert config.activation_memory_budget == before
    assert torch.is_grad_enabled()
