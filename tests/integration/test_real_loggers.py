"""With the real loggers, offline, where they are installed: they get what a stock run gives them, and the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ultralytics")

TRAIN = """
import sys
from ultralytics import YOLO, settings
settings.update({"mlflow": False, "wandb": False, "tensorboard": False, sys.argv[1]: True})
import yolo_ckpt
yolo = YOLO("yolo26n.yaml")
if sys.argv[2] != "stock":
    yolo_ckpt.attach(yolo, ckpt=sys.argv[2])
yolo.train(data=sys.argv[3], imgsz=64, epochs=1, batch=2, device="cpu", workers=0, plots=False, project="project", name="run")
"""  # noqa: E501


def trained(logger: str, ckpt: str, data: Path, folder: Path) -> Path:
    """A run in a new process, with one logger on; the folder that it ran in."""
    pytest.importorskip(logger)
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    environment |= {
        "PYTHONPATH": str(Path(__file__).parents[2]), "YOLO_CONFIG_DIR": str(folder), "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "WANDB_DIR": str(folder), "YOLO_OFFLINE": "true",
    }  # fmt: skip
    setting = [sys.executable, "-c", "from ultralytics import settings"]
    subprocess.run(setting, env=environment, cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, logger, ckpt, str(data)],
        capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "did not take the report" not in done.stdout + done.stderr
    return folder


def test_mlflow(made_data: Path, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    runs = {}
    for ckpt in ("stock", "full"):
        folder = trained("mlflow", ckpt, made_data, tmp_path / ckpt)
        client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
        (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
        runs[ckpt] = (run.data.params, run.data.metrics, {f.path for f in client.list_artifacts(run.info.run_id)})
    (args, metrics, files), (planned_args, planned_metrics, planned_files) = runs["stock"], runs["full"]
    assert {k for k in args if args[k] != planned_args[k]} <= {"save_dir"}
    assert metrics == planned_metrics
    assert planned_files - files == {"ckpt_plan.json", "ckpt_report.json", "ckpt_report.md"}


def test_tensorboard(made_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for ckpt in ("stock", "full"):
        folder = trained("tensorboard", ckpt, made_data, tmp_path / ckpt)
        (events,) = folder.rglob("events.out.tfevents*")
        log = EventAccumulator(str(events.parent)).Reload()
        scalars = {tag: [e.value for e in log.Scalars(tag)] for tag in log.Tags()["scalars"]}
        found[ckpt] = (scalars, set(log.Tags()["tensors"]))
    assert found["stock"][0]
    assert found["stock"][0] == found["full"][0]
    assert {tag.split("/")[0] for tag in found["full"][1] - found["stock"][1]} == {"ckpt_report"}


def test_wandb(made_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    logs = {ckpt: trained("wandb", ckpt, made_data, tmp_path / ckpt) for ckpt in ("stock", "full")}
    files = {ckpt: b"".join(p.read_bytes() for p in log.rglob("run-*.wandb")) for ckpt, log in logs.items()}
    assert b"ckpt_report" not in files["stock"]
    assert b"ckpt_report.md" in files["full"]
