"""Splits and names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from yolo_ckpt.data.convert.naming import stems
from yolo_ckpt.data.convert.sources import Source, sources, split_in_name, split_named
from yolo_ckpt.data.convert.split import shared, splits


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_groups_stay_together_and_the_share_is_met(share: float, seed: int) -> None:
    groups = [f"patient {i % 40}" for i in range(200)]
    found = splits(groups, [""] * 200, share, seed)
    assert shared(groups, found) == 0
    assert Counter(found)["val"] == pytest.approx(share * 200, abs=3)
    assert found == splits(groups, [""] * 200, share, seed)


def test_another_seed_is_another_draw() -> None:
    groups = list(range(50))
    assert splits(groups, [""] * 50, 0.2, 0) != splits(groups, [""] * 50, 0.2, 1)


def test_both_splits_get_something_where_they_can() -> None:
    assert sorted(splits([1, 2], [""] * 2, 0.01, 0)) == ["train", "val"]
    assert splits([1, 1], [""] * 2, 0.5, 0) == ["train", "train"]
    assert splits([1, 2, 3], [""] * 3, 0.0, 0) == ["train"] * 3


def test_splits_that_are_given_are_kept() -> None:
    given = ["train", "val", "test", ""]
    assert splits([1, 1, 2, 3], given, 0.2, 0) == ["train", "val", "test", "train"]
    assert shared([1, 1, 2], ["train", "val", "test"]) == 1
    found = splits(list(range(10)), ["train"] * 9 + ["test"], 0.2, 0)
    assert Counter(found) == {"train": 7, "val": 2, "test": 1}


@pytest.mark.parametrize(
    ("path", "split"),
    [("train/a.png", "train"), ("images/val2017/a.png", "val"), ("Testing/a.png", "test"), ("trains/a.png", ""),
     ("a/train.png", ""), ("valid/x/a.png", "val")],
)  # fmt: skip
def test_folders_that_name_a_split(path: str, split: str) -> None:
    assert split_named(Path(path)) == split


@pytest.mark.parametrize(
    ("name", "split"), [("instances_train2017", "train"), ("val", "val"), ("constrain", ""), ("train_val", "")]
)
def test_file_names_that_name_a_split(name: str, split: str) -> None:
    assert split_in_name(name) == split


def source(name: str, kind: str = "image") -> Source:
    return Source(path=Path(name), relative=Path(name), kind=kind)


def test_names_are_kept_and_each_is_given_once() -> None:
    files = [source(n) for n in ("a/0.png", "b/0.png", "0_2.png", "A.png", "a.tif", "x:y?.png", ". .png")]
    found = stems(files, "auto", [(False, False)] * len(files))
    assert found == ["0", "0_3", "0_2", "A", "a_2", "x_y_", "image"]
    assert len({name.casefold() for name in found}) == len(files)


def test_no_two_files_write_images_of_one_name() -> None:
    """`scan.tif` has two pages, `wide.png` is tiled."""
    names = ("scan_000.png", "scan.tif", "wide.png", "wide__y00000_x00512.png", "scan_1.png", "wide_000.png")
    one, frames, tiled = (False, False), (True, False), (False, True)
    found = stems([source(n) for n in names], "auto", [one, frames, tiled, one, one, one])
    assert found == ["scan_000", "scan_2", "wide", "wide__y00000_x00512_2", "scan_1", "wide_000"]


def test_dicom_files_are_numbered_unless_asked() -> None:
    files = [source("Doe^Jane.dcm", "dicom"), source("a.png"), source("1.2.840.99", "dicom")]
    assert stems(files, "auto", [(False, False)] * len(files)) == ["000001", "a", "000003"]
    assert stems(files, "keep", [(False, False)] * 3) == ["Doe^Jane", "a", "1.2.840.99"]
    assert stems(files, "number", [(False, False)] * 3) == ["000001", "000002", "000003"]


def test_long_names_leave_room() -> None:
    assert len(stems([source("ä" * 120 + ".png")], "auto", [(True, True)])[0].encode()) <= 180


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("", encoding="utf-8")
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    assert [s.relative for s in sources(tmp_path) if s.path.suffix] == [Path("a/x.txt")]
