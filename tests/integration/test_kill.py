"""Killed in the second epoch, resumed: the same as a stock run that was killed and resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.running import train, unequal

ROOT = Path(__file__).parents[2]
RUN = """
import json, os, signal, sys
from ultralytics import YOLO
arguments, ckpt = json.loads(sys.argv[1]), sys.argv[2]
yolo = YOLO("yolo26n.yaml")
if ckpt != "stock":
    import yolo_ckpt
    yolo_ckpt.attach(yolo, ckpt=ckpt)
yolo.add_callback("on_train_batch_end", lambda t: t.epoch == 1 and os.kill(os.getpid(), signal.SIGKILL))
yolo.train(**arguments)
"""


def test_killed_and_resumed(arguments: dict[str, Any]) -> None:
    results = {}
    for ckpt in ("stock", "full"):
        given = {**arguments, "imgsz": 64, "epochs": 3, "project": f"{arguments['project']}/{ckpt}"}
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(given), ckpt], capture_output=True, check=False, cwd=ROOT
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        last = Path(given["project"], "run", "weights", "last.pt")
        assert last.is_file()
        results[ckpt] = train({"resume": True}, "stock" if ckpt == "stock" else "auto", str(last))
    assert len(results["full"]["losses"]) == 4
    assert unequal(results["stock"], results["full"]) == []


@pytest.mark.parametrize("leftover", [".ckpt_report.json.partial", ".ckpt_plan.json.partial"])
def test_nothing_half_written_is_read(leftover: str, arguments: dict[str, Any]) -> None:
    """What a kill may leave of a file of ours does not disturb the next run in the folder."""
    folder = Path(arguments["project"], "run")
    folder.mkdir(parents=True)
    (folder / leftover).write_text("{", encoding="utf-8")
    train({**arguments, "imgsz": 64, "epochs": 1}, "full")
    assert (folder / "ckpt_report.json").is_file()
    assert not (folder / leftover).exists()
