"""Wrong flags, at the shell and in Python: one line and status 2, the right exception, and no run folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import yolo_ckpt
from tests.conftest import host_model
from yolo_ckpt import cli

ultralytics = pytest.importorskip("ultralytics")


def other_model(_: Path) -> str:
    model = host_model("yolov8n.yaml")
    return yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="full").to_json()


def future(_: Path) -> str:
    return json.dumps({**json.loads(other_model(_)), "schema": 99})


FLAGS: list[tuple[dict[str, str], str]] = [
    ({"ckpt": "fast"}, "ckpt=fast"),
    ({"ckpt": "Full"}, "ckpt=Full"),
    *(({"ckpt_stages": text}, f"ckpt_stages={text}") for text in ("99", "-1", "4-2", "C9k9")),
    *(({"ckpt_budget": text}, f"ckpt_budget={text}") for text in ("abc", "-4", "0", "nan", "200%")),
    ({"ckpt_stag": "all"}, "did you mean ckpt_stages"),
    ({"ckpt": "missing.json"}, "there is no such plan file"),
]
FILES: list[tuple[Callable[[Path], str], str]] = [
    (lambda _: "not json", "is not JSON"),
    (lambda _: "[]", "schema"),
    (future, "has schema 99"),
    (other_model, "another model"),
]


pytestmark = pytest.mark.usefixtures("own_callbacks")


def refused(flags: dict[str, str], says: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    host = [f"{k}={v}" for k, v in {**arguments, "imgsz": 64, "model": "yolo26n.yaml"}.items()]
    status = cli.main(["train", *host, *(f"{k}={v}" for k, v in flags.items())])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("yolo-ckpt: ")]
    assert status == 2
    assert len(lines) == 1
    assert says in lines[0]
    assert not Path(arguments["project"], "run").exists()
    with pytest.raises(yolo_ckpt.RequestError, match=says.replace("(", r"\(")):
        yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), **flags).train(**{**arguments, "imgsz": 64})
    assert not Path(arguments["project"], "run").exists()


@pytest.mark.parametrize(("flags", "says"), FLAGS, ids=str)
def test_flags(flags: dict[str, str], says: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    refused(flags, says, arguments, capsys)


@pytest.mark.parametrize(("content", "says"), FILES, ids=[says for _, says in FILES])
def test_plan_files(
    content: Callable[[Path], str], says: str, arguments: dict[str, Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "plan.json"
    file.write_text(content(tmp_path), encoding="utf-8")
    refused({"ckpt": str(file)}, says, arguments, capsys)
