"""Trainings that the host starts as processes of their own are planned as well: tuning, lists of data sets, Ray."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import yolo_ckpt
from yolo_ckpt.attachment import is_planned

ultralytics = pytest.importorskip("ultralytics")

FIXED = ["imgsz=64", "epochs=1", "batch=2", "device=cpu", "plots=False", "workers=0"]


def command(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`yolo-ckpt ARGUMENTS` in a new process."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTEST_CURRENT_TEST", "YOLO_CKPT")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    line = [sys.executable, "-m", "yolo_ckpt", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=cwd, env={**environment, **variables})


def planned_stages(folder: Path) -> list[list[int]]:
    """The planned stages of every run below `folder`."""
    plans = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(folder.rglob("ckpt_plan.json"))]
    return [[s["index"] for s in plan["stages"] if s["action"] == "full"] for plan in plans]


@pytest.fixture
def outside_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("YOLO_CKPT", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


TUNED: dict[str, Any] = {
    "imgsz": 64, "epochs": 1, "batch": 2, "device": "cpu", "plots": False, "workers": 0, "iterations": 1,
}  # fmt: skip


def test_tuning(made_data: Path, tmp_path: Path, outside_pytest: None) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full", ckpt_stages="0-5")
    yolo.tune(data=str(made_data), project=str(tmp_path), **TUNED)
    assert planned_stages(tmp_path) == [[0, 1, 2, 3, 4, 5]]
    assert not [p for p in tmp_path.rglob("args.yaml") if "ckpt" in p.read_text(encoding="utf-8")]
    assert "YOLO_CKPT" not in os.environ


def test_tuning_without_a_plan_is_stock(made_data: Path, tmp_path: Path, outside_pytest: None) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo_ckpt.attach(yolo, ckpt="off").tune(data=str(made_data), project=str(tmp_path), **TUNED)
    assert list(tmp_path.rglob("results.csv"))
    assert planned_stages(tmp_path) == []


def test_the_plan_outlives_a_reset_of_the_callbacks(arguments: dict[str, Any]) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo.add_callback("on_train_start", print)
    for again in (yolo, copy.deepcopy(yolo), pickle.loads(pickle.dumps(yolo))):
        assert isinstance(again, ultralytics.YOLO)
        again.reset_callbacks()
        assert print not in again.callbacks["on_train_start"]
        again.train(**{**arguments, "imgsz": 64, "epochs": 1})
        assert is_planned(again.trainer.model)


def test_a_list_of_data_sets(made_data: Path, tmp_path: Path) -> None:
    other = made_data.with_name("again.yaml")
    other.write_text(made_data.read_text(encoding="utf-8"), encoding="utf-8")
    done = command(
        "train", "model=yolo26n.yaml", f"data=['{made_data}','{other}']", *FIXED, "ckpt=full", "ckpt_stages=0-5",
        f"project={tmp_path}", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert planned_stages(tmp_path) == [[0, 1, 2, 3, 4, 5]] * 2


def test_flags_of_the_environment_are_defaults(made_data: Path, tmp_path: Path) -> None:
    done = command(
        "train", "model=yolo26n.yaml", f"data={made_data}", *FIXED, f"project={tmp_path}", "ckpt_stages=0-2",
        cwd=tmp_path, YOLO_CKPT="ckpt=full ckpt_stages=0-5",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert planned_stages(tmp_path) == [[0, 1, 2]]
    refused = command("train", "model=yolo26n.yaml", cwd=tmp_path, YOLO_CKPT="full")
    assert refused.returncode == 2
    assert "full is not a flag" in refused.stderr


RAY = """
import sys
import yolo_ckpt
from ray import tune
from ultralytics import YOLO
yolo_ckpt.attach(YOLO("yolo26n.yaml"), ckpt="full", ckpt_stages="0-5").tune(
    use_ray=True, data=sys.argv[1], space={"lr0": tune.uniform(1e-4, 1e-2)}, iterations=1, search_alg="random",
    grace_period=1, imgsz=64, epochs=1, batch=2, device="cpu", plots=False, workers=0, project=sys.argv[2],
    name="trial",
)
"""


def test_ray(made_data: Path, tmp_path: Path) -> None:
    """Ray's workers reset the callbacks of the object that they get."""
    pytest.importorskip("ray")
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", RAY, str(made_data), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert planned_stages(tmp_path) == [[0, 1, 2, 3, 4, 5]]
