"""`imgsz=native`, and what is said of rectangular batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

import yolo_ckpt
from tests.integration.running import train
from yolo_ckpt import cli
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration import native, shell
from yolo_ckpt.integration.rectangles import rectangles_of
from yolo_ckpt.reporting import rect_line

ultralytics = pytest.importorskip("ultralytics")


def write_images(root: Path, train_sizes: list[tuple[int, int]], val_sizes: list[tuple[int, int]]) -> Path:
    """Noise images of these widths and heights, one object in each; the path of the data set's YAML."""
    rng = np.random.default_rng(0)
    for split, sizes in (("train", train_sizes), ("val", val_sizes)):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for i, (w, h) in enumerate(sizes):
            cv2.imwrite(str(root / "images" / split / f"{i}.png"), rng.integers(0, 255, (h, w, 3), dtype=np.uint8))
            (root / "labels" / split / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.5", encoding="utf-8")
    text = f"path: {root}\ntrain: images/train\nval: images/val\nnames: [a]\n"
    (root / "data.yaml").write_text(text, encoding="utf-8")
    return root / "data.yaml"


@pytest.fixture
def strips(tmp_path: Path) -> Path:
    return write_images(tmp_path / "strips", [(512, 64)] * 4, [(512, 64)] * 2)


@pytest.fixture
def short(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "imgsz": "native", "epochs": 1, "val": False}


def test_the_longest_side_of_both_splits(tmp_path: Path) -> None:
    data = yaml.safe_load(
        write_images(tmp_path, [(100, 80), (60, 90)], [(64, 70), (50, 130)]).read_text(encoding="utf-8")
    )
    absolute = {**data, "train": str(tmp_path / "images/train"), "val": str(tmp_path / "images/val")}
    found = native.native_size(absolute)
    assert (found.width, found.height, found.imgsz, found.shortest, found.images) == (50, 130, 160, 70, 4)
    line = "imgsz=native is 160: the largest of 4 images is 50 x 130 (1.png)"
    assert found.line == f"{line}; smaller ones, down to 70 px, are enlarged to it"
    assert native.native_size({**absolute, "val": absolute["train"]}).imgsz == 128


def test_exact_multiples_stay(tmp_path: Path) -> None:
    write_images(tmp_path, [(96, 96)], [(96, 64)])
    found = native.native_size({"train": str(tmp_path / "images/train"), "val": str(tmp_path / "images/val")})
    assert found.imgsz == 96
    assert "enlarged" not in found.line


def test_unreadable_images_are_counted(tmp_path: Path) -> None:
    write_images(tmp_path, [(96, 96)], [(96, 64)])
    folders = {"train": str(tmp_path / "images/train"), "val": str(tmp_path / "images/val")}
    (tmp_path / "images" / "train" / "broken.png").write_text("no image", encoding="utf-8")
    assert native.native_size(folders).line.endswith("; 1 cannot be read and are left out")
    for path in (tmp_path / "images").rglob("*.png"):
        path.write_text("no image", encoding="utf-8")
    with pytest.raises(RequestError, match="none of 3 images can be read"):
        native.native_size(folders)
    with pytest.raises(RequestError, match="no images are found in train"):
        native.native_size({**folders, "train": str(tmp_path / "labels" / "train")})


@pytest.mark.parametrize("ckpt", ["off", "full"])
def test_training_takes_the_number(ckpt: str, short: dict[str, Any]) -> None:
    """And stock args.yaml and weights have it."""
    trainer = train(short, ckpt)["trainer"]
    folder = Path(short["project"], "run")
    assert trainer.args.imgsz == 96
    assert yaml.safe_load((folder / "args.yaml").read_text(encoding="utf-8"))["imgsz"] == 96
    assert ultralytics.YOLO(folder / "weights" / "last.pt").overrides["imgsz"] == 96


def test_planned_with_the_true_shapes(strips: Path, short: dict[str, Any], log: pytest.LogCaptureFixture) -> None:
    """The forecast is that of 64 x 512 images: the measured peak is below it and near, and a square's far above."""
    given = {**short, "data": str(strips), "rect": True, "optimizer": "SGD"}
    settings = {"ckpt_budget": "1GiB"}
    trainer = train(given, "auto", **settings)["trainer"]
    run = type(trainer)._yolo_ckpt_run
    assert run.conditions.size == (64, 512)
    report = json.loads(Path(short["project"], "run", "ckpt_report.json").read_text(encoding="utf-8"))
    state = sum(p.nbytes for p in trainer.model.parameters())  # one momentum, which the first steps do not have yet
    assert 0.98 <= (report["live_bytes"] + state) / run.plan.peak_bytes <= 1.02
    out = log.text
    assert "rect=True: 512 x 64 batches; square training would need 8.0 x the pixels, forecast " in out
    assert "without mosaic" in out
    peak, square = run.peaks_with(trainer, (1.0, 1.0))
    assert square > 3 * peak


def test_square_training_of_strips_names_what_rect_would_save(
    strips: Path, short: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    train({**short, "data": str(strips)}, "off")
    assert "rect=True (512 x 64 at most) would need 12% of the pixels; the host then trains" in log.text


def test_nothing_is_said_of_images_that_are_nearly_square(short: dict[str, Any], log: pytest.LogCaptureFixture) -> None:
    train(short, "off")
    assert "rect=True" not in log.text


def test_rectangles_are_the_hosts() -> None:
    """Heights and widths as the host's data set makes them of images alone in their batches."""
    from ultralytics.data.base import BaseDataset

    sizes = [(64, 512), (300, 400), (512, 100), (333, 333), (1, 4000)]
    host = object.__new__(BaseDataset)
    host.ni, host.batch_size, host.imgsz, host.stride, host.pad = len(sizes), 1, 640, 32, 0.0
    host.im_files, host.labels = [str(s) for s in sizes], [{"shape": s} for s in sizes]
    host.set_rectangle()
    found = rectangles_of(sizes, 640)
    pixels = [int(h * w) for h, w in host.batch_shapes]
    assert found.share == pytest.approx(sum(pixels) / len(pixels) / 640**2)
    assert found.height * found.width == max(pixels)
    assert found.shapes == len({tuple(s) for s in host.batch_shapes.tolist()})


def test_lines_of_rectangles() -> None:
    found = rectangles_of([(256, 4096), (200, 4096)], 4096)
    gib = 1 << 30
    line = rect_line(found, imgsz=4096, rect=True, peak_bytes=gib, other_peak_bytes=9 * gib)
    assert line == (
        "rect=True: 4096 x 256 batches, 2 shapes, this is the largest; square training would need 17.1 x the pixels, "
        "forecast 9.00 GiB instead of 1.00 GiB; the host trains without mosaic and shuffling"
    )
    line = rect_line(found, imgsz=4096, rect=False, peak_bytes=9 * gib, other_peak_bytes=gib)
    assert line == (
        "images far from square in 4096 x 4096 batches: rect=True (4096 x 256 at most) would need 6% of the pixels, "
        "forecast 1.00 GiB instead of 9.00 GiB; the host then trains without mosaic and shuffling"
    )


def test_refused_for_classification_and_several_processes(made_data: Path, tmp_path: Path) -> None:
    args = SimpleNamespace(imgsz="native", task="classify", split="val", fraction=1.0)
    with pytest.raises(RequestError, match="classification"):
        native.take_native(SimpleNamespace(args=args))
    args.task = "detect"
    folders = {k: str(made_data.parent / "images" / k) for k in ("train", "val")}
    with pytest.raises(RequestError, match=r"on 2 devices cannot tell its processes; .* give imgsz=96"):
        native.take_native(SimpleNamespace(args=args, data=folders, world_size=2))


class ToldError(Exception):
    """What a trainer was told."""


class Asking:
    """A trainer that tells what it was told."""

    def __init__(self, overrides: dict[str, Any], _callbacks: Any) -> None:
        raise ToldError(overrides["imgsz"])


@pytest.mark.parametrize(
    ("device", "imgsz", "told"),
    [([0, 1], "native", 512), ("0,1", "Native", 512), ("cuda:0,1", "native", 512), ("0", "native", "native"),
     ([0], "native", "native"), (None, "native", "native"), ("0,1", 320, 320)],
)  # fmt: skip
def test_several_processes_are_started_with_the_number(device: Any, imgsz: Any, told: Any, strips: Path) -> None:
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"))
    with pytest.raises(ToldError) as raised:
        yolo.train(Asking, data=str(strips), imgsz=imgsz, device=device)
    assert raised.value.args == (told,)


def test_at_the_shell_too(strips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "register_default", lambda *_, **__: None)
    given = ["train", f"data={strips}", "device=0,1", "imgsz=native", "fraction=1.0"]
    with shell.planned(given, ckpt="off") as rest:
        assert rest == [*given, "imgsz=512"]
    with shell.planned([*given, "device=0"], ckpt="off") as rest:
        assert rest[-1] == "device=0"
    with pytest.raises(RequestError, match="needs data= beside it"), shell.planned(given[:1] + given[2:], ckpt="off"):
        pass


def test_a_refusal_leaves_no_run_folder(short: dict[str, Any], tmp_path: Path) -> None:
    yaml_file = write_images(tmp_path / "x", [(40, 40)], [(40, 40)])
    (tmp_path / "x" / "images" / "train" / "0.png").unlink()
    yolo = yolo_ckpt.attach(ultralytics.YOLO("yolo26n.yaml"), ckpt="off")
    with pytest.raises(RequestError, match="no images are found in train"):
        yolo.train(**{**short, "data": str(yaml_file)})
    assert not Path(short["project"], "run").exists()


def test_plan_takes_it(strips: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["plan", "model=yolo26n.yaml", "imgsz=native", f"data={strips}", "ckpt=full", "format=json"]
    assert cli.main(given) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["imgsz"] == 512


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "imgsz=native"), "name it with data="),
        (("plan", "imgsz=native", "data=nothing.yaml"), "data=nothing.yaml cannot be used"),
        (("plan", "data=nothing.yaml"), "is for imgsz=native"),
        (("verify", "imgsz=native"), "this command has none"),
        (("plan", "ckpt_augment=aerial"), "works in training"),
        (("plan", "ckpt_augment=arial"), "did you mean aerial"),
    ],
)
def test_wrong_requests(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([arguments[0], "model=yolo26n.yaml", *arguments[1:]]) == 2
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert says in error


def test_fit_for_the_cloud_takes_it(
    strips: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from yolo_ckpt.integration import look

    asked: dict[str, Any] = {}

    def cloud(_: Any, **given: Any) -> Any:
        asked.update(given)
        raise RequestError("enough")

    monkeypatch.setattr(look, "cloud", cloud)
    assert cli.main(["fit", "model=yolo26n.yaml", "gpu=cloud", "imgsz=native", f"data={strips}"]) == 2
    assert asked["imgsz"] == 512
