"""Wrong requests: one line, exit status 2, nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from yolo_ckpt import cli
from yolo_ckpt.data.convert.request import Request


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("task=pose", "task=pose"),
        ("format_in=csv", "format_in=csv"),
        ("labels=nowhere", "labels=nowhere"),
        ("window=bright", "window=bright"),
        ("window=1,2,3", "window=1,2,3"),
        ("window=nan,2", "window=nan,2"),
        ("percentile=9,3", "percentile=9,3"),
        ("percentile=0.5", "percentile=0.5"),
        ("bands=0,1,2", "bands=0,1,2"),
        ("bands=r,g,b", "bands=r,g,b"),
        ("tile=10", "tile=10"),
        ("tile=99999", "tile=99999"),
        ("tile=-5", "tile=-5"),
        ("overlap=1.5", "overlap=1.5"),
        ("min_visible=2", "min_visible=2"),
        ("jpeg=101", "jpeg=101"),
        ("val=1", "val=1"),
        ("seed=x", "seed=x"),
        ("group=hospital", "group=hospital"),
        ("names=uid", "names=uid"),
        ("workers=0", "workers=0"),
        ("format=xml", "format=xml"),
        ("quality=9", "quality=9"),
        ("tile", "tile is not known here"),
    ],
)
def test_one_line_and_status_2(argument: str, says: str, src: Path, tmp_path: Path, capsys: Any) -> None:
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(src / "a.png")
    status = cli.main(["convert", f"src={src}", f"dst={tmp_path / 'out'}", argument])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert len(captured.err.strip().splitlines()) == 1
    assert says in captured.err
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "src= is missing"),
        (["src=nowhere", "dst=out"], "src=nowhere is not there"),
        (["src=src"], "dst= is missing"),
        (["src=src", "dst=src"], "is not empty"),
        (["src=src", "dst=src/a.png"], "is there already"),
        (["src=empty", "dst=out"], "has no image"),
        (["src=src", "dst=out", "labels=empty"], "has no label for any image"),
        (["src=src", "dst=out", "format_in=coco"], "has no coco label for any image"),
        (["src=src", "dst=out", "labels=src/a.png", "format_in=coco"], "has no coco label"),
        (["src=src", "dst=out", "labels=broken.json"], "cannot be read as JSON"),
        (["src=src", "dst=out", "labels=other.json"], "is no COCO file"),
        (["src=src", "dst=out", "labels=half.json"], "is no whole COCO file"),
    ],
)
def test_sources_targets_and_labels(
    arguments: list[str], says: str, src: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(src / "a.png")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "half.json").write_text('{"images": [{}], "categories": []}', encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    status = cli.main(["convert", *arguments])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, ""), captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert says in captured.err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_defaults_of_both_ways_are_the_same(src: Path, tmp_path: Path) -> None:
    parsed = Request.parse([f"src={src}", f"dst={tmp_path / 'out'}"])
    assert parsed == Request(src=src, dst=tmp_path / "out")


def test_negative_windows(src: Path, tmp_path: Path) -> None:
    parsed = Request.parse([f"src={src}", f"dst={tmp_path / 'out'}", "window=-600,1500"])
    assert parsed.window.numbers == (-600, 1500)
