"""`batch=-1`, `batch=0.7`, `imgsz=max`, and steps of the first epoch that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import yolo_ckpt
from tests.conftest import SMALL, host_model
from tests.integration.running import train, unequal
from yolo_ckpt.integration import autobatch, compat, run
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.fit import Fits
from yolo_ckpt.planning.times import StageTime
from yolo_ckpt.remat import registry
from yolo_ckpt.settings import Settings

pytest.importorskip("ultralytics")

CPU = torch.device("cpu")
MIB = 1 << 20


class Times:
    """Every stage: a fixed part, and one for each image."""

    measured = False

    def __init__(self, fixed_ms: float, image_ms: float) -> None:
        self.fixed_ms, self.image_ms = fixed_ms, image_ms

    def at(self, images: int) -> list[StageTime]:
        ms = (self.fixed_ms + images * self.image_ms) / 2
        return [StageTime(cheap_ms=ms, dear_ms=ms)] * 8


@pytest.fixture(autouse=True)
def as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "small_bytes", 1 << 16)


def conditions(budget_mib: int, **given: Any) -> Conditions:
    return Conditions(**{"imgsz": 320, "batch": 1, "budget_bytes": budget_mib * MIB, **given})


def test_images_that_cost_the_same_each_are_best_left_as_they_are() -> None:
    """More images in a step gain nothing then, so there is nothing to recompute for."""
    model = host_model(SMALL, "meta")
    wanted = conditions(200)
    batch = autobatch.choose_batch(model, wanted, ckpt="auto", most=64, device=CPU, times=Times(0.0, 1.0))
    assert auto_plan(model, replace(wanted, batch=batch)).plan.planned == ()
    assert batch == autobatch.choose_batch(model, wanted, ckpt="off", most=64, device=CPU)


def test_a_step_that_costs_the_same_whatever_its_size_takes_all_that_fits() -> None:
    model = host_model(SMALL, "meta")
    wanted = conditions(200)
    batch = autobatch.choose_batch(model, wanted, ckpt="auto", most=64, device=CPU, times=Times(1000.0, 0.001))
    stock = autobatch.choose_batch(model, wanted, ckpt="off", most=64, device=CPU)
    full = autobatch.choose_batch(model, wanted, ckpt="full", most=64, device=CPU)
    assert stock < 0.7 * batch
    assert 0.9 * full <= batch <= full
    plan = auto_plan(model, replace(wanted, batch=batch)).plan
    assert plan.peak_bytes is not None
    assert plan.peak_bytes <= wanted.budget_bytes


def test_no_more_images_than_there_are() -> None:
    model = host_model(SMALL, "meta")
    for ckpt in ("auto", "selective"):
        assert autobatch.choose_batch(model, conditions(4000), ckpt=ckpt, most=5, device=CPU) == 5


@pytest.mark.parametrize("ckpt", ["selective", "full"])
def test_a_fixed_mode_takes_the_largest_batch_that_fits(ckpt: str) -> None:
    model = host_model(SMALL, "meta")
    wanted = conditions(100)
    batch = autobatch.choose_batch(model, wanted, ckpt=ckpt, most=64, device=CPU)
    fits = Fits(model, wanted)
    assert fits.peak_bytes(ckpt, 320, batch) <= wanted.budget_bytes < fits.peak_bytes(ckpt, 320, batch + 1)


def test_a_plan_file_is_a_fixed_mode(tmp_path: Path) -> None:
    model = host_model(SMALL, "meta")
    wanted, path = conditions(100), tmp_path / "plan.json"
    path.write_text(yolo_ckpt.plan(model, imgsz=320, batch=2, ckpt="full").to_json(), encoding="utf-8")
    batches = {autobatch.choose_batch(model, wanted, ckpt=c, most=64, device=CPU) for c in (str(path), "full")}
    assert len(batches) == 1


def test_nothing_fits() -> None:
    model = host_model(SMALL, "meta")
    with pytest.raises(yolo_ckpt.BudgetInfeasibleError) as refused:
        autobatch.choose_batch(model, conditions(15), ckpt="full", most=64, device=CPU)
    assert refused.value.largest_imgsz < 320
    assert refused.value.largest_batch == 0


def test_what_would_fit_is_named() -> None:
    """The sizes are those that `full` fits: a mixed plan may have room for a little more."""
    model = host_model(SMALL, "meta")
    wanted = conditions(50, imgsz=640, batch=4)
    with pytest.raises(yolo_ckpt.BudgetInfeasibleError) as refused:
        auto_plan(model, wanted)
    error = refused.value
    assert error.least_bytes > wanted.budget_bytes
    assert f"imgsz={error.largest_imgsz} at batch=4 and batch={error.largest_batch} at imgsz=640" in str(error)
    for change in ({"imgsz": error.largest_imgsz}, {"batch": error.largest_batch}):
        plan = auto_plan(model, replace(wanted, **change)).plan
        assert plan.peak_bytes is not None
        assert plan.peak_bytes <= wanted.budget_bytes
    fits = Fits(model, wanted)
    assert fits.peak_bytes("full", error.largest_imgsz + 32, 4) > wanted.budget_bytes
    assert fits.peak_bytes("full", 640, error.largest_batch + 1) > wanted.budget_bytes


@pytest.mark.parametrize("ckpt", ["auto", "selective"])
def test_the_largest_image(ckpt: str) -> None:
    model = host_model(SMALL, "meta")
    wanted = conditions(50, batch=2)
    imgsz = autobatch.choose_imgsz(model, wanted, ckpt=ckpt, stride=32, device=CPU)
    fits = Fits(model, wanted)
    mode = "full" if ckpt == "auto" else ckpt
    assert fits.peak_bytes(mode, imgsz, 2) <= wanted.budget_bytes < fits.peak_bytes(mode, imgsz + 32, 2)


@pytest.mark.parametrize("batch", [-1, 0.5])
def test_training_chooses_its_batch(batch: float, arguments: dict[str, Any]) -> None:
    """What was chosen is what stock trains with when it is given that batch."""
    given = {**arguments, "imgsz": 160, "epochs": 1, "optimizer": "SGD"}
    planned = train({**given, "batch": batch}, "auto", SMALL, ckpt_budget="70MiB")
    chosen = planned["trainer"].batch_size
    assert chosen > 1
    assert planned["trainer"].args.batch == chosen
    plan = type(planned["trainer"])._yolo_ckpt_run.plan
    assert plan.batch == chosen
    assert plan.peak_bytes <= 70 * MIB * abs(batch)
    assert unequal(train({**given, "batch": chosen}, "stock", SMALL), planned) == []


def test_the_host_chooses_where_there_is_no_budget(arguments: dict[str, Any]) -> None:
    given = {**arguments, "imgsz": 64, "epochs": 1, "batch": -1}
    assert train(given, "full")["trainer"].batch_size == train(given, "stock")["trainer"].batch_size


def test_the_host_chooses_where_the_step_cannot_be_simulated(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("no content")

    for name in ("auto_plan", "choose_batch"):
        monkeypatch.setattr(run, name, broken)
    monkeypatch.setattr(run, "budget_bytes", lambda *_: 110 << 20)
    given = {**arguments, "imgsz": 64, "epochs": 1, "batch": -1}
    assert train(given, "auto")["trainer"].batch_size == train(given, "stock")["trainer"].batch_size


def test_the_batch_for_a_gpu(made_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is not there: what its memory is, and what it takes for itself, is made up."""
    from types import SimpleNamespace

    from yolo_ckpt.integration import forecast

    asked: list[int] = []

    def workspace(simulated: Any, device: torch.device) -> int:
        asked.append(simulated.batch)
        return 300 * MIB if device.type == "cuda" else 0

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (900 * MIB, 24 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 100 * MIB)
    monkeypatch.setattr(forecast.Simulated, "workspace_bytes", workspace)
    monkeypatch.setattr(run, "Measured", lambda *_, **__: Times(1000.0, 0.001))
    args = SimpleNamespace(compile=False, imgsz=320, mosaic=0.0, optimizer="SGD", amp="fp16")
    trainer = SimpleNamespace(
        args=args, batch_size=-1, world_size=1, stride=32, device=torch.device("cuda", 0), amp=True, epochs=1,
        model=host_model(SMALL, "meta"),
    )  # fmt: skip
    chosen = {ckpt: run.Run(Settings(ckpt=ckpt)).choose_batch(trainer) for ckpt in ("selective", "full", "auto")}
    for ckpt in ("selective", "full"):
        wanted = run.Run(Settings(ckpt=ckpt))._conditions(trainer, 900 * MIB, None, batch=1)
        assert wanted.amp is torch.float16
        fits = Fits(trainer.model, wanted.on(trainer.device, trainer.model))
        least, most = (fits.peak_bytes(ckpt, 320, batch) for batch in (chosen[ckpt], chosen[ckpt] + 1))
        assert least <= 900 * MIB < most
    assert 1 < chosen["selective"] < chosen["full"]
    assert 0.9 * chosen["full"] <= chosen["auto"] < 1.1 * chosen["full"]  # a mixed plan may need less than full
    wanted = run.Run(Settings(ckpt="auto"))._conditions(trainer, 900 * MIB, None, batch=chosen["auto"])
    assert auto_plan(trainer.model, wanted.on(trainer.device, trainer.model)).plan.peak_bytes <= 900 * MIB
    assert asked


@pytest.fixture
def wide_data(tmp_path: Path) -> Path:
    """Four strips, and two less wide ones."""
    import cv2
    import numpy as np

    root, rng = tmp_path / "wide", np.random.default_rng(0)
    for kind in ("images", "labels"):
        (root / kind).mkdir(parents=True)
    for i in range(6):
        image = rng.integers(90, 160, (80 if i < 4 else 160, 320, 3), dtype=np.uint8)
        cv2.imwrite(str(root / "images" / f"{i}.png"), image)
        (root / "labels" / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.4\n1 0.3 0.3 0.1 0.2", encoding="utf-8")
    path = root / "data.yaml"
    path.write_text(f"path: {root}\ntrain: images\nval: images\nnames: [a, b]\n", encoding="utf-8")
    return path


def test_rectangles_are_planned_as_they_are(arguments: dict[str, Any], wide_data: Path) -> None:
    """With `rect=True` the largest batch decides: what a square would need is far more than what there is here."""
    given = {**arguments, "data": str(wide_data), "imgsz": 320, "epochs": 1, "rect": True, "optimizer": "SGD"}
    planned = train(given, "auto", SMALL, ckpt_budget="25MiB")
    trainer = planned["trainer"]
    assert sorted(trainer.train_loader.dataset.batch_shapes.tolist()) == [[96, 320], [96, 320], [160, 320]]
    found = type(trainer)._yolo_ckpt_run
    assert found.plan.planned
    square = auto_plan(trainer.model, conditions(1000, batch=2, objects=2)).stock.peak_bytes
    assert found.forecast.stock.peak_bytes < 0.7 * square
    assert unequal(train(given, "stock", SMALL), planned) == []


def test_images_of_any_shape_bound_an_unknown_batch(arguments: dict[str, Any], wide_data: Path) -> None:
    given = {**arguments, "data": str(wide_data), "imgsz": 320, "epochs": 1, "rect": True, "optimizer": "SGD"}
    planned = train({**given, "batch": -1}, "full", SMALL, ckpt_budget="40MiB")
    square = conditions(40, objects=2, extra_bytes=2 * MIB)
    assert planned["trainer"].batch_size > Fits(planned["trainer"].model, square).largest_batch("full", 320, 2)


def test_training_with_the_largest_image(arguments: dict[str, Any]) -> None:
    given = {**arguments, "epochs": 1, "batch": 2, "optimizer": "SGD"}
    planned = train({**given, "imgsz": "max"}, "auto", SMALL, ckpt_budget="40MiB")
    trainer = planned["trainer"]
    imgsz = trainer.args.imgsz
    assert imgsz % 32 == 0
    assert yaml.safe_load((Path(trainer.save_dir) / "args.yaml").read_text(encoding="utf-8"))["imgsz"] == imgsz
    plan = type(trainer)._yolo_ckpt_run.plan
    assert plan.imgsz == imgsz
    assert 0.8 * (40 << 20) < plan.peak_bytes <= 40 << 20
    assert unequal(train({**given, "imgsz": imgsz}, "stock", SMALL), planned) == []


def test_the_largest_image_counts_multi_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(run, "choose_imgsz", lambda *_, **__: 640)
    monkeypatch.setattr(run.Run, "_conditions", lambda *_, **__: None)
    args = SimpleNamespace(multi_scale=0.5, compile=False, imgsz=0)
    trainer = SimpleNamespace(
        args=args, batch_size=2, world_size=1, stride=32, device=CPU, model=None, save_dir=tmp_path
    )  # fmt: skip
    run.Run(Settings(ckpt="full", ckpt_budget="1GiB"), largest=True).choose_imgsz(trainer)
    assert args.imgsz == 416  # half as much again is 624


@pytest.mark.parametrize(
    ("images", "asked", "name"), [(100, "auto", "AdamW"), (70_000, "auto", "MuSGD"), (9, "SGD", "SGD")]
)
def test_the_optimizer_that_the_host_will_choose(images: int, asked: str, name: str) -> None:
    from types import SimpleNamespace

    trainer = SimpleNamespace(optimizer=None, args=SimpleNamespace(optimizer=asked, nbs=64), epochs=10)
    assert compat.optimizer_name(trainer, images) == name


def test_the_largest_image_needs_a_budget(arguments: dict[str, Any]) -> None:
    given = {**arguments, "imgsz": "max", "exist_ok": False}
    with pytest.raises(yolo_ckpt.RequestError, match="imgsz=max needs a GPU or ckpt_budget="):
        train(given, "full")
    assert not (Path(arguments["project"]) / "run").exists()


def fail(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let the first `times` training steps fail as they do when memory is not enough; their batches."""
    from ultralytics.engine.trainer import BaseTrainer

    batches: list[int] = []
    original = BaseTrainer.preprocess_batch

    def preprocess(self: Any, batch: Any) -> Any:
        if len(batches) < times:
            batches.append(self.batch_size)
            raise torch.OutOfMemoryError("CUDA out of memory. (made)")
        return original(self, batch)

    from ultralytics.models.yolo.detect import DetectionTrainer

    original = DetectionTrainer.preprocess_batch
    monkeypatch.setattr(DetectionTrainer, "preprocess_batch", preprocess)
    return batches


@pytest.mark.parametrize("ckpt", ["selective", "auto"])
def test_a_tighter_plan_comes_before_half_the_batch(
    ckpt: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**arguments, "imgsz": 160, "epochs": 1, "batch": 4}
    settings = {"ckpt_budget": "120MiB"} if ckpt == "auto" else {}
    with monkeypatch.context() as failing:
        batches = fail(failing, 1)
        planned = train(given, ckpt, **settings)
    trainer = planned["trainer"]
    assert batches == [4]
    assert trainer.batch_size == trainer.args.batch == 4
    plan = type(trainer)._yolo_ckpt_run.plan
    if ckpt == "auto":
        assert plan.peak_bytes < 0.75 * 120 * MIB
    else:
        assert {s.action for s in plan.stages} == {"full"}
    written = yolo_ckpt.Plan.load(Path(trainer.save_dir) / "ckpt_plan.json")
    assert written == plan


def test_then_the_batch_is_halved_as_often_as_stock_does(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**arguments, "imgsz": 64, "epochs": 2, "batch": 8}
    with monkeypatch.context() as failing:
        assert fail(failing, 3) is not None
        stock = train(given, "stock")["trainer"].batch_size
    with monkeypatch.context() as failing:
        batches = fail(failing, 4)
        planned = train(given, "selective")
    assert batches == [8, 8, 4, 2]
    assert planned["trainer"].batch_size == stock == 1
    with monkeypatch.context() as failing:
        fail(failing, 5)
        with pytest.raises(torch.OutOfMemoryError):
            train(given, "selective")
