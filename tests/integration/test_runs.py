"""Whatever people do with Ultralytics works with a plan on, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import yolo_ckpt
from tests.integration.running import train, unequal
from yolo_ckpt.attachment import is_planned

ultralytics = pytest.importorskip("ultralytics")


@pytest.fixture
def short(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "imgsz": 64}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A weights file that was never trained."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("weights") / "teacher.pt"
    ultralytics.YOLO("yolo26n.yaml").save(path)
    return str(path)


def assert_same(arguments: dict[str, Any], ckpt: str = "full", model: str = "yolo26n.yaml") -> dict[str, Any]:
    planned, stock = train(arguments, ckpt, model), train(arguments, "stock", model)
    assert is_planned(planned["trainer"].model)
    assert unequal(stock, planned) == []
    return planned


@pytest.mark.parametrize(
    "given",
    [
        {"freeze": 5},
        {"freeze": [0, 2, 23]},
        {"nbs": 6},
        {"rect": True},
        {"multi_scale": 0.5, "imgsz": 96},
        {"close_mosaic": 1},
        {"fraction": 0.5},
        {"batch": 1},
        {"batch": 3},
        {"optimizer": "SGD", "cos_lr": True, "warmup_epochs": 1},
        {"single_cls": True, "val": False},
    ],
    ids=str,
)
def test_the_same_run(given: dict[str, Any], short: dict[str, Any]) -> None:
    assert_same({**short, **given})


def test_smallest_size(short: dict[str, Any]) -> None:
    assert_same({**short, "imgsz": 32, "batch": 4, "epochs": 1})


def test_distilled(short: dict[str, Any], weights: str) -> None:
    planned = assert_same({**short, "distill_model": weights})
    assert type(planned["trainer"].model).__name__ == "DistillationModel"


def test_from_weights(short: dict[str, Any], weights: str) -> None:
    assert_same({**short, "epochs": 1}, model=weights)
    assert_same({**short, "epochs": 1, "pretrained": weights})


@pytest.mark.parametrize("remap", [True, False])
def test_classes_of_weights_matched_by_name(remap: bool, short: dict[str, Any], tmp_path: Path) -> None:
    """The data set's classes are a and b; in the weights they are the third and the first."""
    torch.manual_seed(3)
    source = ultralytics.YOLO("yolo26n.yaml")
    source.model.names = {0: "b", 1: "c", 2: "a"} | {i: f"other {i}" for i in range(3, 80)}
    source.save(tmp_path / "named.pt")
    said: list[str] = []
    watch = pytest.MonkeyPatch()
    watch.setattr("ultralytics.nn.tasks.LOGGER.info", lambda line, *_: said.append(str(line)))
    try:
        assert_same({**short, "epochs": 1, "cls_remap": remap}, model=str(tmp_path / "named.pt"))
    finally:
        watch.undo()
    assert any("Remapped" in line for line in said) == remap


class StoppedError(Exception):
    """Ends a run as an interruption does."""


def stop_after(epochs: int) -> Callable[[Any], None]:
    def stop(trainer: Any) -> None:
        if trainer.epoch + 1 >= epochs:
            raise StoppedError

    return stop


@pytest.mark.parametrize("epochs_before", [1, 2])
def test_resumed(epochs_before: int, short: dict[str, Any]) -> None:
    """Stopped after some epochs, and resumed without a word about the plan: the plan is found in the run folder."""
    results = {}
    for ckpt in ("stock", "full"):
        given = {**short, "epochs": 3, "project": f"{short['project']}/{ckpt}"}
        yolo = ultralytics.YOLO("yolo26n.yaml")
        if ckpt != "stock":
            yolo_ckpt.attach(yolo, ckpt=ckpt, ckpt_stages="0-10")
        yolo.add_callback("on_fit_epoch_end", stop_after(epochs_before))
        with pytest.raises(StoppedError):
            yolo.train(**given)
        last = Path(given["project"], "run", "weights", "last.pt")
        results[ckpt] = train({"resume": True}, "stock" if ckpt == "stock" else "auto", str(last))
    assert len(results["full"]["losses"]) == 2 * (3 - epochs_before)
    assert {s.index for s in yolo_ckpt.Plan.load(last.parents[1] / "ckpt_plan.json").planned} == set(range(11))
    assert is_planned(results["full"]["trainer"].model)
    assert unequal(results["stock"], results["full"]) == []


def test_a_custom_trainer(short: dict[str, Any]) -> None:
    from ultralytics.models.yolo.detect import DetectionTrainer

    class Own(DetectionTrainer):
        built = 0

        def _build_train_pipeline(self) -> None:
            self.built += 1
            assert is_planned(self.model)
            super()._build_train_pipeline()

    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo.train(trainer=Own, **{**short, "epochs": 1})
    assert isinstance(yolo.trainer, Own)
    assert yolo.trainer.built == 1


def test_a_list_of_data_sets(short: dict[str, Any]) -> None:
    seen: list[bool] = []
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo.add_callback("on_train_start", lambda t: seen.append(is_planned(t.model)))
    yolo.train(**{**short, "epochs": 1, "data": [short["data"], short["data"]]})
    assert seen == [True, True]


def test_afterwards_everything_works(short: dict[str, Any], tmp_path: Path) -> None:
    yolo = train({**short, "epochs": 1}, "full")["yolo"]
    image = np.zeros((64, 64, 3), np.uint8)
    before = yolo.predict(image, imgsz=64, conf=0.0001, verbose=False)[0].boxes.data
    assert not is_planned(yolo.model)
    yolo.val(data=short["data"], imgsz=64, device="cpu", workers=0, plots=False)
    exported = yolo.export(format="torchscript", imgsz=64, device="cpu")
    reloaded = ultralytics.YOLO(exported, task="detect").predict(image, imgsz=64, conf=0.0001, verbose=False)
    assert torch.allclose(before, reloaded[0].boxes.data, atol=1e-3)
    yolo.fuse()
    yolo.save(tmp_path / "again.pt")


def test_time_and_a_stop_from_outside(short: dict[str, Any]) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    yolo.train(**{**short, "time": 0.0005})
    folder = Path(short["project"], "run")
    assert (folder / "ckpt_report.json").is_file()
    assert (folder / "weights" / "best.pt").is_file()


def test_nan_recovery_keeps_the_plan(short: dict[str, Any]) -> None:
    seen: list[bool] = []
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")

    def poison(trainer: Any) -> None:
        seen.append(is_planned(trainer.model))
        if trainer.epoch == 1 and len(seen) == 2:
            trainer.loss = trainer.loss * float("nan")

    yolo.add_callback("on_train_epoch_end", poison)
    yolo.train(**{**short, "epochs": 3})
    assert seen == [True] * 4


def test_quantised_training_is_refused_before_anything_is_written(short: dict[str, Any]) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="full")
    with pytest.raises(yolo_ckpt.RequestError, match="quantize=8"):
        yolo.train(**{**short, "quantize": "int8"})
    assert not Path(short["project"], "run").exists()


def data_set(folder: Path, images: dict[str, np.ndarray], labels: str | None) -> str:
    import cv2

    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / split).mkdir(parents=True)
        for name, image in images.items():
            cv2.imwrite(str(folder / "images" / split / f"{name}.png"), image)
            if labels is not None:
                (folder / "labels" / split / f"{name}.txt").write_text(labels, encoding="utf-8")
    path = folder / "data.yaml"
    path.write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [a]\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("sizes", "labels"),
    [([(64, 64)] * 2, None), ([(64, 64)] * 2, ""), ([(64, 64)], "0 0.5 0.5 0.2 0.2\n"), ([(1, 20000)] * 2, "")],
    ids=["no label files", "empty labels", "one image", "a line of pixels"],
)
def test_odd_data_sets_are_as_stock(
    sizes: list[tuple[int, int]], labels: str | None, short: dict[str, Any], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    images = {str(i): rng.integers(0, 255, (*size, 3), dtype=np.uint8) for i, size in enumerate(sizes)}
    given = {**short, "data": data_set(tmp_path / "data", images, labels), "epochs": 1}
    outcomes = []
    for ckpt in ("stock", "full"):
        try:
            outcomes.append(train(given, ckpt))
        except Exception as error:
            outcomes.append({"error": f"{type(error).__name__}: {error}"})
    stock, planned = outcomes
    assert stock.get("error") == planned.get("error")
    if "error" not in stock:
        assert unequal(stock, planned) == []
