"""Training through the host with a plan: the same run, stock files, and a report."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import yolo_ckpt
from tests.conftest import both_modes
from tests.integration.running import train, unequal
from yolo_ckpt.attachment import is_planned
from yolo_ckpt.integration import PlanCallback

ultralytics = pytest.importorskip("ultralytics")


@pytest.fixture(scope="module")
def stock(made_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stock")
    arguments = {
        "data": str(made_data), "imgsz": 96, "batch": 2, "epochs": 2, "device": "cpu", "workers": 0, "amp": False,
        "plots": False, "project": str(folder), "name": "run", "exist_ok": True, "verbose": False,
    }  # fmt: skip
    train({**arguments, "epochs": 1}, "stock")  # in some versions of the host the first run on a data set is another
    return train(arguments, "stock")


@both_modes
def test_same_run_to_the_last_bit(ckpt: str, arguments: dict[str, Any], stock: dict[str, Any]) -> None:
    planned = train(arguments, ckpt)
    assert is_planned(planned["trainer"].model)
    assert unequal(stock, planned) == []


def test_files_of_the_run(arguments: dict[str, Any]) -> None:
    train(arguments, "full", ckpt_stages="backbone")
    folder = Path(arguments["project"]) / "run"
    for weights in ("best.pt", "last.pt"):
        with zipfile.ZipFile(folder / "weights" / weights) as archive:
            pickled = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
        assert b"yolo_ckpt" not in pickled
        assert not is_planned(ultralytics.YOLO(folder / "weights" / weights).model)
    assert "ckpt" not in (folder / "args.yaml").read_text(encoding="utf-8")
    plan = yolo_ckpt.Plan.load(folder / "ckpt_plan.json")
    assert {s.index for s in plan.planned} == set(range(11))
    report = json.loads((folder / "ckpt_report.json").read_text(encoding="utf-8"))
    assert report["batches"] == 4
    assert report["live_bytes"] > 2**20
    assert report["step_ms"] > 0
    assert report["versions"]["ultralytics"] == ultralytics.__version__
    markdown = (folder / "ckpt_report.md").read_text(encoding="utf-8")
    assert "live bytes at the peak" in markdown
    assert "not in ckpt_stages" in markdown
    assert not list(folder.glob(".*"))


def test_live_bytes_of_a_plan_are_fewer(arguments: dict[str, Any]) -> None:
    live = {}
    for ckpt in ("selective", "full"):
        train({**arguments, "imgsz": 320, "epochs": 1}, ckpt)
        report = json.loads((Path(arguments["project"]) / "run" / "ckpt_report.json").read_text(encoding="utf-8"))
        live[ckpt] = report["live_bytes"]
    assert live["full"] < live["selective"]


def test_three_lines_of_log(arguments: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("ultralytics")
    logger.addHandler(caplog.handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        train({**arguments, "epochs": 1}, "selective", ckpt_stages="0-22")
    finally:
        logger.setLevel(level)
        logger.removeHandler(caplog.handler)
    ours = [r.getMessage() for r in caplog.records if "Checkpoint: " in r.getMessage()]
    assert len(ours) == 4
    assert "ckpt=selective at imgsz=96, batch=2" in ours[0]
    assert "stages 0-22 of 24" in ours[1]
    assert "23 (not in ckpt_stages)" in ours[2]
    assert "ckpt_report.md" in ours[3]


def test_attach_before_and_after_several_trainings(arguments: dict[str, Any]) -> None:
    yolo = yolo_ckpt.attach(yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full"), ckpt="selective")
    assert [c.settings.ckpt for c in yolo.callbacks["on_pretrain_routine_start"] if isinstance(c, PlanCallback)] == [
        "selective"
    ]
    seen: list[bool] = []
    yolo.add_callback("on_train_start", lambda t: seen.append(is_planned(t.model)))
    short = {**arguments, "epochs": 1}
    yolo.train(**short)
    yolo.train(**short)
    yolo_ckpt.attach(yolo, ckpt="off").train(**short)
    assert seen == [True, True, False]


def test_the_plan_is_on_before_autobatch_copies_the_model(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ultralytics.engine import trainer as host

    seen: list[bool] = []

    def profile(model: torch.nn.Module, **_: Any) -> int:
        seen.append(is_planned(model))
        return 2

    monkeypatch.setattr(host, "check_train_batch_size", profile)
    train({**arguments, "batch": -1, "epochs": 1}, "full")
    assert seen == [True]


def test_a_host_without_a_seam_is_named_and_trains_stock_if_asked(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from yolo_ckpt.integration import compat

    monkeypatch.setattr(compat, "SEAMS", (*compat.SEAMS, "_seam_of_tomorrow"))
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    with pytest.raises(yolo_ckpt.RequestError, match="_seam_of_tomorrow") as caught:
        yolo.train(**arguments)
    assert ultralytics.__version__ in str(caught.value)
    assert yolo_ckpt.__version__ in str(caught.value)
    assert not (Path(arguments["project"]) / "run").exists()
    yolo_ckpt.attach(yolo, ckpt="off").train(**{**arguments, "epochs": 1})
    assert not is_planned(yolo.trainer.model)


def test_a_second_building_of_the_loaders_keeps_the_plan(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host builds its loaders again when it halves the batch."""
    from yolo_ckpt.integration import run

    failed: list[int] = []
    made: list[int] = []
    make = run.make_plan
    monkeypatch.setattr(run, "make_plan", lambda *a, **k: made.append(1) or make(*a, **k))

    def fail_once(trainer: Any) -> None:
        if not failed:
            failed.append(1)
            stock = trainer.model.forward

            def broken(*_: Any, **__: Any) -> Any:
                trainer.model.__dict__.pop("forward")
                raise RuntimeError("CUDA out of memory (injected)")

            assert callable(stock)
            trainer.model.forward = broken

    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo.add_callback("on_train_batch_start", fail_once)
    seen: list[tuple[int, bool]] = []
    yolo.add_callback("on_train_epoch_end", lambda t: seen.append((t.batch_size, is_planned(t.model))))
    yolo.train(**{**arguments, "epochs": 1})
    assert seen == [(1, True)]
    assert made == [1]


@pytest.mark.parametrize(("model", "task"), [("yolo11n-cls.yaml", "classify")])
def test_a_trainer_of_another_task(model: str, task: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    import cv2
    import numpy as np

    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("a", "b"):
            folder = tmp_path / "cls" / split / name
            folder.mkdir(parents=True)
            for i in range(2):
                cv2.imwrite(str(folder / f"{i}.png"), rng.integers(0, 255, (64, 64, 3), dtype=np.uint8))
    given = {**arguments, "data": str(tmp_path / "cls"), "imgsz": 64, "epochs": 1}
    stock, planned = train(given, "stock", model), train(given, "full", model)
    assert planned["trainer"].args.task == task
    assert is_planned(planned["trainer"].model)
    assert torch.equal(stock["losses"], planned["losses"])


def test_a_request_that_fits_no_stage_leaves_no_run_folder(arguments: dict[str, Any]) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full", ckpt_stages="99")
    with pytest.raises(yolo_ckpt.SettingsError, match="ckpt_stages=99"):
        yolo.train(**arguments)
    assert not (Path(arguments["project"]) / "run").exists()


def test_attach_refuses_what_is_no_yolo() -> None:
    with pytest.raises(yolo_ckpt.RequestError, match="YOLO or RTDETR"):
        yolo_ckpt.attach(torch.nn.Linear(1, 1))
