"""Simulated steps are remembered over all tests: the same model, sizes and plan give the same forecast."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from yolo_ckpt.remat import registry

_steps: dict[Any, Any] = {}


@pytest.fixture(autouse=True)
def remembered_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate each step once."""
    pytest.importorskip("ultralytics")
    from yolo_ckpt.integration.forecast import Simulated

    original = Simulated.step

    def step(self: Any, plan: Any) -> Any:
        model = self._model
        described = getattr(model, "yaml", None)
        if described is None:
            return original(self, plan)
        actions = None if plan is None else tuple((s.action, s.opens, s.closes) for s in plan.stages)
        targets = tuple((name, tuple(t.shape)) for name, t in self._made.items())
        trained = sum(p.requires_grad for p in model.parameters())
        key = (str(described), trained, self._amp, self._cuda, targets, registry.small_bytes, actions)
        if key not in _steps:
            _steps[key] = original(self, plan)
        return _steps[key]

    monkeypatch.setattr(Simulated, "step", step)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the host's logger is told, from INFO on."""
    logger = logging.getLogger("ultralytics")
    level = logger.level
    logger.addHandler(caplog.handler)
    logger.setLevel(logging.INFO)
    yield caplog
    logger.setLevel(level)
    logger.removeHandler(caplog.handler)
