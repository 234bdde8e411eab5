"""Sizes of objects, shapes of batches, memory of loading, and the picture."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.data.check.made import add, encoded, make_set, noise
from tests.data.check.test_images import checked, said_of
from yolo_ckpt import cli
from yolo_ckpt.data.check import memory
from yolo_ckpt.data.check.memory import HostMemory, Loading, Shapes, host_memory, memory_findings

pytest.importorskip("ultralytics")


def test_objects_in_pixels_at_640_and_at_the_images_own_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = make_set(tmp_path)
    rows = "0 0.5 0.5 0.01 0.01\n0 0.5 0.5 0.002 0.2\n"  # 12.8 x 6.4 and 2.56 x 128 px of 1280 x 640
    add(tmp_path, "train/wide.png", encoded("PNG", noise(size=(1280, 640))), rows)
    report = checked(yaml, capsys)[1]
    at_640, native = report["sizes"]
    assert (report["imgsz"], at_640["imgsz"], native["imgsz"]) == (1280, 640, 1280)
    assert (at_640["objects"], native["objects"]) == (5, 5)
    assert at_640["below_cell"] == 1  # 6.4 x 3.2 px
    assert native["below_cell"] == 0  # 9.05 px, and 18.1 px
    assert (at_640["thinner_than_cell"], native["thinner_than_cell"]) == (2, 2)
    assert sum(native["counts"]) == 5
    assert [s["imgsz"] for s in checked(yaml, capsys, "imgsz=300")[1]["sizes"]] == [640, 320]
    assert [s["imgsz"] for s in checked(yaml, capsys, "imgsz=640")[1]["sizes"]] == [640]


def test_objects_in_an_image_are_what_the_forecast_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/a.png", encoded("PNG"), "".join(f"0 0.5 0.5 0.{i}1 0.2\n" for i in range(1, 8)))
    report = checked(yaml, capsys)[1]
    assert report["splits"]["train"]["mean_objects"] == 3
    assert report["splits"]["train"]["most_objects"] == 7
    assert report["objects"] == 12  # four average images in a mosaic


@pytest.mark.parametrize("task", ["detect", "segment", "obb", "pose"])
def test_the_task_is_guessed(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        "detect": "0 0.5 0.5 0.25 0.25\n", "segment": "0 0.1 0.1 0.5 0.1 0.5 0.5 0.3 0.6 0.1 0.5\n",
        "obb": "0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n", "pose": "0 0.5 0.5 0.25 0.25 0.5 0.5 2\n",
    }  # fmt: skip
    yaml = make_set(tmp_path, extra="kpt_shape: [1, 3]\n" if task == "pose" else "")
    for label in (tmp_path / "labels").rglob("*.txt"):
        label.write_text(rows[task], encoding="utf-8")
    status, report = checked(yaml, capsys)
    assert (status, report["task"], report["task_guessed"]) == (0, task, True)


def test_rect_saves_what_the_hosts_batches_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ultralytics.cfg import get_cfg
    from ultralytics.data.build import build_yolo_dataset

    yaml = make_set(tmp_path)
    for i, size in enumerate([(640, 100), (600, 200), (100, 640), (320, 320), (500, 250)]):
        add(tmp_path, f"train/s{i}.png", encoded("PNG", noise(size=size)))
    rect = checked(yaml, capsys, "batch=2", "imgsz=640")[1]["rect"]
    arguments = get_cfg(overrides={"imgsz": 640, "rect": True, "task": "detect"})
    data = build_yolo_dataset(arguments, str(tmp_path / "images/train"), 2, {"names": {0: "a", 1: "b"}, "channels": 3})
    pixels = sum(int(h * w) for h, w in data.batch_shapes[data.batch])
    assert rect["rect_pixels"] == pixels
    assert rect["square_pixels"] == 7 * 640 * 640
    assert rect["saved_share"] == pytest.approx(1 - pixels / rect["square_pixels"], abs=1e-4)
    assert rect["largest"] == data.batch_shapes[data.batch_shapes.prod(1).argmax()].tolist()


def test_a_worker_of_the_host_holds_what_is_reckoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer for mosaic and the batches that wait are most of it: both are counted on the host's own objects."""
    from ultralytics.cfg import get_cfg
    from ultralytics.data import build

    make_set(tmp_path)
    for i in range(40):
        add(tmp_path, f"train/n{i}.png", encoded("PNG", noise(seed=i)))
    arguments = get_cfg(overrides={"imgsz": 64, "task": "detect"})
    data = build.build_yolo_dataset(
        arguments, str(tmp_path / "images/train"), 2, {"names": {0: "a", 1: "b"}, "channels": 3}
    )
    monkeypatch.setattr(build.os, "cpu_count", lambda: 4)
    loader = build.build_dataloader(data, 2, 3, device="cpu")
    for i in range(len(data)):
        data[i]
    buffered = sum(image.nbytes for image in data.ims if image is not None)
    how = Loading(imgsz=64, batch=2, workers=3, validates=False)
    found = host_memory(Shapes(count=42, sizes=[(80, 64)] * 42), Shapes(count=0, sizes=[]), how)
    assert loader.num_workers == found.workers == 3
    assert found.shared_bytes == loader.num_workers * loader.prefetch_factor * 2 * 64 * 64 * 3
    without = host_memory(Shapes(count=0, sizes=[(80, 64)]), Shapes(count=0, sizes=[]), how)
    assert found.worker_bytes - without.worker_bytes == pytest.approx(buffered, rel=0.1)


def _memory(**changed: Any) -> HostMemory:
    values = {
        "workers": 2, "worker_bytes": 1 << 30, "val_workers": 0, "val_worker_bytes": 0, "shared_bytes": 1 << 30,
        "cache_bytes": 1 << 30, "cached": False, "total_bytes": 3 << 30, "free_bytes": 8 << 30,
        "installed_bytes": 16 << 30, "shared_free_bytes": 4 << 30, **changed,
    }  # fmt: skip
    return HostMemory(**values)


@pytest.mark.parametrize(
    ("changed", "how", "said"),
    [
        ({}, {}, []),
        ({"total_bytes": 9 << 30}, {}, [("memory-workers", "note")]),
        ({"total_bytes": 17 << 30}, {}, [("memory-workers", "fails")]),
        ({"shared_free_bytes": 1 << 29}, {}, [("memory-shared", "note")]),
        ({"shared_free_bytes": 64 << 20}, {}, [("memory-shared", "fails")]),
        ({"shared_free_bytes": None}, {}, []),
        ({"cached": True}, {"cache": "ram"}, []),
        ({}, {"cache": "ram"}, [("memory-cache", "note")]),
        ({"cache_bytes": 1 << 60}, {"cache": "disk"}, [("memory-cache", "note")]),
    ],
)
def test_memory_that_is_not_there(
    changed: dict[str, Any], how: dict[str, Any], said: list[Any], tmp_path: Path
) -> None:
    loading = Loading(imgsz=2048, batch=8, **how)
    found = memory_findings(_memory(**changed), loading, "data.yaml", str(tmp_path))
    assert [(one.code, one.kind) for one in found] == said


def test_the_cache_is_what_the_host_would_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = Shapes(count=100, sizes=[(1280, 640)])
    square, nothing = 640 * 320 * 3 * 100, Shapes(count=0, sizes=[])
    in_ram = Loading(imgsz=640, batch=2, cache="ram")
    assert host_memory(shapes, nothing, in_ram).cache_bytes == square
    assert host_memory(shapes, nothing, Loading(imgsz=640, batch=2, cache="disk")).cache_bytes == 1280 * 640 * 3 * 100
    for free, cached in ((2 * square, True), (2 * square - 1, False)):
        there = SimpleNamespace(available=free, total=free)
        monkeypatch.setattr(memory.psutil, "virtual_memory", lambda there=there: there)
        assert host_memory(shapes, nothing, in_ram).cached is cached


def test_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    yaml = make_set(tmp_path)
    add(tmp_path, "train/a.png", encoded("PNG", noise(size=(1280, 640))), "0 0.5 0.5 0.01 0.01\n")
    picture = tmp_path / "sizes.png"
    assert cli.main(["check", f"data={yaml}", f"plot={picture}"]) == 0
    with Image.open(picture) as image:
        assert image.size == (1200, 600)
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20)}
    assert {(217, 83, 76), (31, 78, 121)} <= colours  # a bar chart for each size
    for label in (tmp_path / "labels").rglob("*.txt"):
        label.write_text("", encoding="utf-8")
    assert cli.main(["check", f"data={yaml}", f"plot={picture}"]) == 2
    assert "no object to draw" in capsys.readouterr().err


def test_the_hosts_label_cache_is_neither_read_nor_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    cache = tmp_path / "labels" / "train.cache"
    cache.write_bytes(b"not a cache")
    assert said_of(checked(yaml, capsys)[1]) == []
    assert cache.read_bytes() == b"not a cache"
    assert not (tmp_path / "labels" / "val.cache").exists()
