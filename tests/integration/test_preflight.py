"""The look at the data before training: what it says, when, and what it leaves alone."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.check.made import IMAGES, add, encoded, make_set, noise
from tests.data.check.test_images import contents
from tests.integration.running import train
from yolo_ckpt.data.check import memory
from yolo_ckpt.integration import compat, preflight
from yolo_ckpt.integration.preflight import Preflight, spread

pytest.importorskip("ultralytics")

Lines = list[tuple[str, bool]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What is logged, and whether as a warning."""
    logged: Lines = []
    monkeypatch.setattr(compat, "log", lambda message, *, warning=False: logged.append((message, warning)))
    return logged


def trainer_of(yaml: Path, **changed: Any) -> Any:
    """As much of a trainer as the preflight sees."""
    arguments = {
        "task": "detect", "data": str(yaml), "single_cls": False, "imgsz": 640, "workers": 2, "cache": False,
        "rect": False, "val": True, **changed,
    }  # fmt: skip
    return SimpleNamespace(
        args=SimpleNamespace(**arguments), data=compat.described_data(str(yaml)), batch_size=2, world_size=1
    )


def flown(yaml: Path, **changed: Any) -> None:
    """Look and tell."""
    flight, trainer = Preflight(), trainer_of(yaml, **changed)
    flight.look(trainer)
    flight.tell(trainer, planned=True)


def test_healthy_data_is_no_line(tmp_path: Path, lines: Lines) -> None:
    flown(make_set(tmp_path))
    assert lines == []


def test_once_in_a_run(tmp_path: Path, lines: Lines) -> None:
    """The host asks for the batch first, and builds again after a failure."""
    yaml = make_set(tmp_path)
    add(tmp_path, "train/bad.png", b"text")
    flight, trainer = Preflight(), trainer_of(yaml)
    for _ in range(2):
        flight.look(trainer)
    for _ in range(2):
        flight.tell(trainer, planned=True)
    assert len(lines) == 1


def test_what_is_wrong_in_a_line(tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    names = (
        "zero bytes", "JPEG with bytes after its end", "16 bits with values 0 to 2047", "1-bit PNG of 33000 x 33000",
        "16 bits over the full range",
    )  # fmt: skip
    for name in names:
        file, make = IMAGES[name]
        add(tmp_path, f"train/{name}.{file[2:]}", make())
    add(tmp_path, "train/class.png", encoded("PNG"), "7 0.5 0.5 0.2 0.2\n")
    add(tmp_path, "train/polygons.png", encoded("PNG"), "0 0.1 0.1 0.5 0.5 0.4\n")
    before = contents(tmp_path)
    flown(yaml)
    [(line, warning)] = lines
    assert warning
    assert line.startswith("of 10 images looked at, 6 files will be left out or damaged: ")
    assert line.count("(") >= 3
    assert "; 3 of other kinds; " in line
    assert f"`yolo-ckpt check data={yaml}` tells all" in line
    assert contents(tmp_path) == before


def test_levels_are_counted_where_there_are_16_bits(tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    for i in range(5):
        add(tmp_path, f"train/x{i}.png", IMAGES["16 bits with values 0 to 2047"][1]())
    flown(yaml)
    [(line, _)] = lines
    assert "5 files will be left out or damaged: 5 images of which the host keeps few grey levels (x" in line
    assert "16 bits: 8 of 1,886 levels are left" in line


def test_boxes_for_polygons_stop_training(tmp_path: Path, lines: Lines) -> None:
    flown(make_set(tmp_path), task="segment")
    [(line, warning)] = lines
    assert warning
    assert "3 files will stop training: 3 labels of boxes for a task of polygons" in line


def test_any_class_is_right_in_a_run_with_one(tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/class.png", encoded("PNG"), "7 0.5 0.5 0.2 0.2\n")
    flown(yaml, single_cls=True)
    assert lines == []


def test_objects_below_a_cell(tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/a.png", encoded("PNG", noise(size=(1280, 640))), "0 0.5 0.5 0.01 0.01\n" * 1)
    flown(yaml)
    assert lines == [
        (
            "25% of the objects are below 8 px, a cell of the finest feature map, at imgsz=640; 0% at 1280, the "
            "images' own size",
            False,
        )
    ]


def test_memory_that_is_not_there(tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    there = SimpleNamespace(available=1 << 20, total=1 << 40)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: there)
    flown(make_set(tmp_path))
    [(line, warning)] = lines
    assert warning
    assert "1 MiB are free; fewer workers=" in line
    assert "out of memory" not in line.lower()


def test_many_images_are_sampled(tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = make_set(tmp_path)
    for i in range(40):
        add(tmp_path, f"train/bad{i}.png", b"")
    monkeypatch.setattr(preflight, "MOST_LOOKED_AT", 10)
    flown(yaml)
    assert lines[0][0].startswith("of 10 of 43 images looked at, ")
    monkeypatch.setattr(preflight, "MOST_LISTED", 20)
    flown(yaml)
    assert " and more images looked at, " in lines[1][0]


def test_time_is_kept(tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = make_set(tmp_path)
    for i in range(40):
        add(tmp_path, f"train/bad{i}.png", b"")
    monkeypatch.setattr(preflight, "SECONDS", 0.0)
    flown(yaml)
    assert lines == [] or lines[0][0].startswith("of 1 of 43 images looked at, ")


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100, 1000])
def test_a_sample_is_spread(count: int) -> None:
    everything = list(range(count))
    assert sorted(spread(everything, 10**6)) == everything  # type: ignore[arg-type]
    if count == 1000:
        few = list(spread(everything, 10))  # type: ignore[arg-type]
        assert {i // 200 for i in few} == set(range(5))  # type: ignore[operator]


def test_what_cannot_be_looked_at_does_not_stop_a_run(
    tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a strange file")

    monkeypatch.setattr(preflight, "look", broken)
    flown(make_set(tmp_path))
    assert lines == [("the data could not be looked at (ZeroDivisionError: a strange file); going on", True)]


@pytest.mark.parametrize("task", ["classify", "semantic", "depth"])
def test_tasks_with_other_labels_are_left_alone(task: str, tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/bad.png", b"")
    flown(yaml, task=task)
    assert lines == []


def test_sources_that_are_no_files_are_left_alone(tmp_path: Path, lines: Lines) -> None:
    trainer = trainer_of(make_set(tmp_path))
    trainer.data["train"] = [{"img_path": "x", "json_file": "y"}]
    flight = Preflight()
    flight.look(trainer)
    flight.tell(trainer, planned=True)
    assert lines == []


def test_nothing_else_changes(tmp_path: Path, lines: Lines) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/bad.png", b"text")
    states: list[Callable[[], Any]] = [
        random.getstate,
        lambda: str(np.random.get_state()),
        lambda: str(torch.get_rng_state().tolist()),
    ]
    before = [state() for state in states]
    flown(yaml)
    assert [state() for state in states] == before
    assert not list(tmp_path.rglob("*.cache"))
    assert len(lines) == 1


def test_it_loads_nothing_heavy(tmp_path: Path) -> None:
    """Beyond what the host has loaded by then."""
    yaml = make_set(tmp_path)
    code = f"""
import sys, ultralytics.models, ultralytics.data
from types import SimpleNamespace as N
from yolo_ckpt.integration import compat
data = compat.described_data({str(yaml)!r})
before = set(sys.modules)
from yolo_ckpt.integration.preflight import Preflight
a = N(task="detect", data="x", single_cls=False, imgsz=640, workers=2, cache=False, rect=False, val=True)
Preflight().look(N(args=a, data=data))
heavy = {{"rich", "matplotlib", "tifffile", "scipy", "pydicom"}}
print(sorted({{m.split(".")[0] for m in set(sys.modules) - before}} & heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("ckpt", ["full", "off"])
def test_in_a_training_run(
    ckpt: str, tmp_path: Path, lines: Lines, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the host rewrites what it thinks is broken; once; not in a stock run."""
    from ultralytics.utils import checks

    monkeypatch.setattr(checks, "check_requirements", lambda *_, **__: False)
    yaml = make_set(tmp_path / "set")
    image = add(tmp_path / "set", "train/a.jpg", IMAGES["JPEG with bytes after its end"][1]())
    add(tmp_path / "set", "train/b.png", b"text")
    size = image.stat().st_size
    run = train({**arguments, "data": str(yaml), "epochs": 1, "imgsz": 64}, ckpt)
    assert len(run["trainer"].train_loader.dataset) == 3
    assert image.stat().st_size != size  # the host's doing
    about_data = [line for line, _ in lines if "images looked at" in line]
    assert len(about_data) == (ckpt == "full")
    if about_data:
        assert "2 files will be left out or damaged: " in about_data[0]
        assert "a.jpg" in about_data[0]
        assert "b.png" in about_data[0]
