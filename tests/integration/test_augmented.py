"""`ckpt_augment` in training: among the run's arguments and weights, with and without a plan, in every process."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

import yolo_ckpt
from tests.integration.running import train, unequal
from tests.integration.test_runs import StoppedError, stop_after
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration import PlanCallback, hostdata
from yolo_ckpt.integration.attached import extend_object
from yolo_ckpt.integration.shell import planned

ultralytics = pytest.importorskip("ultralytics")


def names(transforms: Any) -> list[str]:
    """Class names of the transforms in a run's arguments."""
    return [t["transform"]["__class_fullname__"].rpartition(".")[2] for t in transforms]


AERIAL = ["Transpose", "RandomBrightnessContrast", "RandomBrightnessContrast", "GaussianBlur"]


@pytest.fixture
def short(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "imgsz": 64}


def applied(trainer: Any) -> list[str]:
    """Class names of the transforms that the run's training set has."""
    host = next(t for t in trainer.train_loader.dataset.transforms.transforms if type(t).__name__ == "Albumentations")
    return [type(t).__name__ for t in host.transform.transforms]


def test_the_same_run_with_and_without_a_plan(short: dict[str, Any]) -> None:
    """The preset changes the data and nothing else: two runs are equal, and one with a plan is equal to one without."""
    off, again, full = (train(short, ckpt, ckpt_augment="aerial") for ckpt in ("off", "off", "full"))
    assert unequal(off, again) == []
    assert unequal(off, full) == []
    assert applied(full["trainer"]) == AERIAL
    stock = train(short, "stock")
    assert not torch.equal(stock["losses"], off["losses"])
    assert "augmentations" not in vars(stock["trainer"].args)


def test_none_is_the_hosts_own(short: dict[str, Any]) -> None:
    stock, none = train(short, "stock"), train(short, "full", ckpt_augment="none")
    assert unequal(stock, none) == []
    assert vars(stock["trainer"].args) == vars(none["trainer"].args)


def test_files_of_the_run(short: dict[str, Any]) -> None:
    train(short, "full", ckpt_augment="medical")
    folder = Path(short["project"], "run")
    text = (folder / "args.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    assert "ckpt" not in text
    assert names(written["augmentations"]) == ["CLAHE", "RandomGamma", "GaussNoise"]
    assert (written["hsv_s"], written["fliplr"], written["scale"]) == (0.0, 0.0, 0.1)
    for weights in ("best.pt", "last.pt"):
        file = folder / "weights" / weights
        with zipfile.ZipFile(file) as archive:
            pickled = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
        assert b"yolo_ckpt" not in pickled
        assert torch.load(file, weights_only=False)["train_args"]["scale"] == 0.1
    assert ultralytics.YOLO(folder / "weights" / "best.pt").val(data=short["data"], imgsz=64, plots=False)


def test_the_users_own_arguments_stay(short: dict[str, Any], log: pytest.LogCaptureFixture) -> None:
    given = {**short, "epochs": 1, "flipud": 0.1, "hsv_v": 0.3}
    trainer = train(given, "off", ckpt_augment="aerial")["trainer"]
    assert (trainer.args.flipud, trainer.args.hsv_v) == (0.1, 0.3)
    assert "flipud, hsv_v as given" in log.text


@pytest.mark.parametrize("own", [[], "blur"])
def test_transforms_of_the_users_own_are_not_replaced(own: Any, short: dict[str, Any]) -> None:
    import albumentations

    transforms = [albumentations.Blur(p=0.5)] if own else []
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="off", ckpt_augment="aerial")
    with pytest.raises(RequestError, match="ckpt_augment=aerial and augmentations="):
        yolo.train(**short, augmentations=transforms)
    assert not Path(short["project"], "run").exists()


def test_a_resumed_run_goes_on_as_it_was_begun(short: dict[str, Any], log: pytest.LogCaptureFixture) -> None:
    """Also stock, and also with another preset."""
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="off", ckpt_augment="aerial")
    yolo.add_callback("on_fit_epoch_end", stop_after(1))
    with pytest.raises(StoppedError):
        yolo.train(**{**short, "epochs": 3})
    last = Path(short["project"], "run", "weights", "last.pt")
    again = yolo_ckpt.attach(ultralytics.YOLO(last), ckpt="off", ckpt_augment="medical")
    again.add_callback("on_fit_epoch_end", stop_after(2))
    with pytest.raises(StoppedError):
        again.train(resume=True)
    assert applied(again.trainer) == AERIAL
    assert "goes on with the augmentation that it was begun with" in log.text
    assert applied(train({"resume": True}, "stock", str(last))["trainer"]) == AERIAL


def test_what_other_callbacks_see(short: dict[str, Any], tmp_path: Path) -> None:
    """Loggers send a run's arguments when it starts: these are final by then, but for the data, which stands there as
    the user named it; and the host reads the data once."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(Path(short["data"]).read_text(encoding="utf-8"), encoding="utf-8")

    class Own(DetectionTrainer):
        read = 0

        def get_dataset(self) -> Any:
            type(self).read += 1
            data = super().get_dataset()
            self.args.data = str(resolved)
            return data

    seen: dict[str, Any] = {}
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="off", ckpt_augment="industrial")
    yolo.add_callback("on_pretrain_routine_start", lambda trainer: seen.update(vars(trainer.args)))
    yolo.train(trainer=Own, **{**short, "epochs": 1, "imgsz": "native", "val": False})
    assert names(seen["augmentations"]) == ["Illumination", "GaussNoise", "GaussianBlur"]
    assert (seen["imgsz"], seen["data"], seen["hsv_s"]) == (96, short["data"], 0.0)
    assert Own.read == 1
    assert yolo.trainer.args.data == str(resolved)
    assert "get_dataset" not in vars(yolo.trainer)


def test_at_the_shell_and_in_files(tmp_path: Path, own_callbacks: dict[str, list[object]]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("imgsz: 64\nckpt_augment: medical\n", encoding="utf-8")
    for given, wanted in (([f"cfg={file}"], "medical"), ([f"cfg={file}", "ckpt_augment=aerial"], "aerial")):
        with planned(["train", *given], ckpt="auto") as rest:
            callback = next(c for c in own_callbacks["on_pretrain_routine_start"] if isinstance(c, PlanCallback))
            assert callback.settings.ckpt_augment == wanted
        assert not any("ckpt" in argument for argument in rest if not argument.startswith("cfg="))


def test_tuning_hands_it_on() -> None:
    class Tuned:
        def __init__(self) -> None:
            self.callbacks: dict[str, Any] = {"on_pretrain_routine_start": [], "on_pretrain_routine_end": []}

        def add_callback(self) -> None: ...
        def reset_callbacks(self) -> None: ...
        def tune(self) -> str | None:
            return os.environ.get("YOLO_CKPT")

    yolo = Tuned()
    extend_object(yolo)
    flags = yolo_ckpt.attach(yolo, ckpt="off", ckpt_augment="aerial").tune()
    assert flags is not None
    assert "ckpt_augment=aerial" in flags
    assert yolo_ckpt.attach(yolo, ckpt="off").tune() is None


def test_classification_is_refused_before_its_data_is_read() -> None:
    from yolo_ckpt.integration.augmented import augment

    args = SimpleNamespace(resume=False, task="classify", rect=False)
    with pytest.raises(RequestError, match="ckpt_augment=medical"):
        augment(SimpleNamespace(args=args), "medical")


def test_a_host_that_keeps_no_transforms_is_too_old(short: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on without them, after a line in its log."""
    monkeypatch.setattr(hostdata, "keeps_transforms", lambda: False)
    with pytest.raises(RequestError, match=r"update it to 8\.4\.130"):
        train(short, "full", ckpt_augment="aerial")
    assert not Path(short["project"], "run").exists()
