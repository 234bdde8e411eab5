"""Two processes: every one planned alike, and equal to two without a plan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import yolo_ckpt
from yolo_ckpt.integration import PlanCallback
from yolo_ckpt.settings import Settings

pytest.importorskip("ultralytics")
ROOT = Path(__file__).parents[2]
LAUNCH = """
import sys
from pathlib import Path
from ultralytics.utils import callbacks, YAML
import yolo_ckpt
from yolo_ckpt.integration import register_default
from yolo_ckpt.settings import Settings
from tests.integration.gloo import GlooTrainer, Saved

folder, ckpt, preset = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if ckpt != "stock":
    register_default(Settings(ckpt=ckpt, ckpt_stages="0-22", ckpt_augment=preset))
registered = callbacks.get_default_callbacks()
registered["on_train_epoch_end"].append(Saved(folder))
trainer = GlooTrainer(overrides=YAML.load(folder / "given.yaml"), _callbacks=registered)
trainer.train()
"""


def launch(ckpt: str, arguments: dict[str, Any], folder: Path, preset: str = "none") -> list[Any]:
    """Train with the host's launcher; what both processes end with."""
    from ultralytics.utils import YAML

    folder.mkdir()
    given = {**arguments, "model": "yolo26n.yaml", "batch": 4, "epochs": 2, "imgsz": 64, "project": str(folder)}
    YAML.save(folder / "given.yaml", {**given, "val": False, "task": "detect"})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LAUNCH, str(folder), ckpt, preset]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-9000:]
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


def test_every_process_has_the_plan_and_the_stock_results(arguments: dict[str, Any], tmp_path: Path) -> None:
    stock, planned = launch("stock", arguments, tmp_path / "stock"), launch("full", arguments, tmp_path / "full")
    assert [r["planned"] for r in stock] == [False, False]
    assert [r["planned"] for r in planned] == [True, True]
    assert [r["bounded"] for r in (*stock, *planned)] == [False, False, True, True]
    for before, after in zip(stock, planned, strict=True):
        assert before["state"].keys() == after["state"].keys()
        assert any(k.startswith("gradient") for k in before["state"])
        assert [k for k, v in before["state"].items() if not torch.equal(v, after["state"][k])] == []
    plan = yolo_ckpt.Plan.load(tmp_path / "full" / "run" / "ckpt_plan.json")
    assert {s.index for s in plan.planned} == set(range(23))


def test_every_process_varies_its_images_alike(arguments: dict[str, Any], tmp_path: Path) -> None:
    """The host calls the first callback in one process alone."""
    given = {**arguments, "close_mosaic": 0}  # closing it makes the transforms again
    first, other = launch("off", given, tmp_path / "off", "aerial")
    assert "Transpose" in first["transforms"][0]
    assert other["transforms"] == first["transforms"]
    assert (first["flipud"], other["flipud"]) == (0.5, 0.5)


def test_the_hosts_file_for_other_processes_trains_with_the_plan(arguments: dict[str, Any], tmp_path: Path) -> None:
    """What a worker does, in a new process: the trainer is built again from its class, arguments and callbacks."""
    from ultralytics.models.yolo.detect import DetectionTrainer
    from ultralytics.utils import callbacks
    from ultralytics.utils.dist import ddp_cleanup, generate_ddp_file

    pytest.importorskip("cloudpickle")
    given = {**arguments, "model": "yolo26n.yaml", "epochs": 1, "imgsz": 64}
    trainer = DetectionTrainer(overrides=given)
    trainer.callbacks = callbacks.get_default_callbacks()
    callback = PlanCallback(Settings(ckpt="full"))
    trainer.callbacks["on_pretrain_routine_start"].append(callback)
    trainer.callbacks["on_pretrain_routine_end"].append(callback.share)
    file = generate_ddp_file(trainer)
    try:
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    finally:
        ddp_cleanup(trainer, file)
    assert done.returncode == 0, done.stderr[-9000:]
    assert (Path(arguments["project"]) / "run" / "ckpt_report.json").is_file()
