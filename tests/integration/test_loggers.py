"""The report reaches the loggers that are on, and a logger that fails ends no training."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.integration.running import train
from yolo_ckpt.integration.loggers import log_report

TENSORBOARD = "ultralytics.utils.callbacks.tensorboard"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "ckpt_report.json", tmp_path / "ckpt_report.md"]
    for path in paths:
        path.write_text(path.name, encoding="utf-8")
    return paths


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(content)
    return made


def test_mlflow(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setitem(sys.modules, "mlflow", module("mlflow", log_artifact=logged.append))
    log_report(SimpleNamespace(), files)
    assert logged == []
    log_report(SimpleNamespace(_mlflow_active=True), files)
    assert logged == [str(f) for f in files]


def test_wandb(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[Any] = []

    class Artifact:
        def __init__(self, type: str, name: str) -> None:  # noqa: A002
            self.name, self.files = name, []

        def add_file(self, path: str) -> None:
            self.files.append(path)

    run = SimpleNamespace(id="7", log_artifact=logged.append)
    monkeypatch.setitem(sys.modules, "wandb", module("wandb", run=run, Artifact=Artifact))
    log_report(SimpleNamespace(), files)
    assert [(a.name, a.files) for a in logged] == [("run_7_ckpt_report", [str(f) for f in files])]


def test_tensorboard(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[tuple[str, str]] = []
    writer = SimpleNamespace(add_text=lambda tag, text: texts.append((tag, text)))
    monkeypatch.setitem(sys.modules, TENSORBOARD, module(TENSORBOARD, WRITER=writer))
    log_report(SimpleNamespace(), files)
    assert texts == [("ckpt_report", "ckpt_report.md")]


def test_a_logger_that_fails(arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ConnectionError("no network")

    run = SimpleNamespace(id="7", log_artifact=refuse)
    artifact = lambda **_: SimpleNamespace(add_file=lambda _: None)  # noqa: E731
    monkeypatch.setitem(sys.modules, "wandb", module("wandb", run=run, Artifact=artifact))
    train({**arguments, "epochs": 1, "imgsz": 64}, "full")
    assert (Path(arguments["project"]) / "run" / "ckpt_report.md").is_file()


def test_the_report_is_there_when_the_loggers_close(arguments: dict[str, Any]) -> None:
    seen: list[bool] = []
    import ultralytics

    import yolo_ckpt

    yolo = ultralytics.YOLO("yolo26n.yaml")
    yolo.add_callback("on_train_end", lambda t: seen.append((Path(t.save_dir) / "ckpt_report.md").is_file()))
    yolo_ckpt.attach(yolo, ckpt="full")
    yolo.train(**{**arguments, "epochs": 1, "imgsz": 64})
    assert seen == [True]
