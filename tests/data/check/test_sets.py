"""Splits, folders, links and lists; and the files, listed as the host lists them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.data.check.made import ROW, add, dicom, encoded, make_set, noise, write_yaml
from tests.data.check.test_images import checked, said_of
from yolo_ckpt import cli
from yolo_ckpt.data.check.dataset import endings
from yolo_ckpt.data.check.listing import list_images

pytest.importorskip("ultralytics")


def test_files_are_listed_as_by_the_host(tmp_path: Path) -> None:
    from ultralytics.data.base import BaseDataset

    make_set(tmp_path)
    for name in (
        "train/sub/deep/b.JPG",
        "train/.hidden/c.png",
        "train/.c.png",
        "train/d.e.tiff",
        "train/e.txt",
        "train/f",
    ):
        add(tmp_path, name, encoded("PNG"), None)
    (tmp_path / "images" / "train" / "folder.png").mkdir()
    add(tmp_path, "elsewhere/[1]/g.webp", encoded("WEBP"), None)
    (tmp_path / "images" / "train" / "link").symlink_to(tmp_path / "images" / "elsewhere")
    listed = tmp_path / "list.txt"
    listed.write_text("\ufeff./images/train/0.png\n\n/nowhere/x.bmp\nnotes.md\n", encoding="utf-8")
    host = SimpleNamespace(prefix="", fraction=1.0)
    for place in (tmp_path / "images" / "train", listed, tmp_path / "images" / "elsewhere" / "[1]"):
        theirs = BaseDataset.get_img_files(host, str(place))
        assert list(list_images([str(place)], endings()).images) == theirs


def test_a_link_back_is_found_and_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    train = tmp_path / "images" / "train"
    (train / "again").symlink_to(train)
    status, report = checked(yaml, capsys)
    assert status == 1
    assert said_of(report, train / "again")[0][:2] == ("folder-loop", "loses")
    assert report["splits"]["train"]["listed"] == 2


def test_links_that_lead_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    train = tmp_path / "images" / "train"
    (train / "gone.png").symlink_to("nothing.png")
    (train / "self.png").symlink_to("self.png")
    (train / "folder.png").mkdir()
    status, report = checked(yaml, capsys)
    assert status == 1
    said = {name: said_of(report, train / f"{name}.png")[0] for name in ("gone", "self", "folder")}
    assert said["gone"] == ("image-missing", "loses", "the link leads nowhere")
    assert said["self"] == ("image-missing", "loses", "the link leads to itself")
    assert said["folder"][0] == "image-unreadable"


def test_folders_and_files_that_may_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a made refusal, since a test may run as root, whom nothing is refused."""
    yaml = make_set(tmp_path)
    image = add(tmp_path, "train/private/a.png", encoded("PNG"))
    refused = image.parent
    scandir, opened = os.scandir, Path.open

    def no_scandir(path: Any = ".") -> Any:
        if str(path) == str(refused):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def no_open(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self.name == "0.png":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(os, "scandir", no_scandir)
    monkeypatch.setattr(Path, "open", no_open)
    status, report = checked(yaml, capsys)
    assert status == 1
    assert said_of(report, refused) == [("folder-unreadable", "loses", "permission denied")]
    assert said_of(report, tmp_path / "images" / "train" / "0.png") == [
        ("image-unreadable", "loses", "permission denied")
    ]


def test_pictures_that_the_host_passes_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    names = ("scan.dcm", "IM0001", "1.2.840.113", "photo.GIF", "volume.nii.gz", "x.jfif")
    images = [add(tmp_path, f"train/{name}", dicom(), None) for name in names]
    for name in ("notes.txt", "report.pdf", "README", "2.5.840.113"):
        add(tmp_path, f"train/{name}", b"text", None)
    (tmp_path / "labels" / "train" / "scan.txt").write_text(ROW, encoding="utf-8")  # belongs to scan.dcm
    status, report = checked(yaml, capsys)
    assert status == 1
    assert {f["code"] for f in report["findings"]} == {"image-ignored"}
    assert {Path(f["file"]) for f in report["findings"]} == set(images)
    assert "yolo-ckpt convert" in report["findings"][0]["advice"]


def test_label_files_without_an_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    labels = tmp_path / "labels" / "train"
    (labels / "gone.txt").write_text(ROW * 3, encoding="utf-8")
    (labels / "sub").mkdir()
    (labels / "sub" / "gone.txt").write_text(ROW, encoding="utf-8")
    (labels / "classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    (labels / "empty.txt").write_text("", encoding="utf-8")
    (labels / "size.txt").write_text("80 64\n", encoding="utf-8")
    status, report = checked(yaml, capsys)
    assert status == 1
    assert said_of(report, labels / "gone.txt") == [("label-orphan", "loses", "3 rows, and no image of that name")]
    assert said_of(report, labels / "sub" / "gone.txt")[0][0] == "label-orphan"
    assert len(report["findings"]) == 2


def test_two_images_with_one_label_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/0.jpg", encoded("JPEG"))
    assert said_of(checked(yaml, capsys)[1]) == [("label-shared", "note", "2 images")]


def test_lists_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_set(tmp_path)
    lines = ["./images/train/0.png", str(tmp_path / "images/train/1.png"), "./images/train/gone.png", "0.png ", "x.gif"]
    (tmp_path / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    status, report = checked(write_yaml(tmp_path, train="[train.txt]"), capsys)
    assert status == 1
    assert report["splits"]["train"]["used"] == 2
    assert said_of(report, tmp_path / "images/train/gone.png") == [("image-missing", "loses", "there is no such file")]
    reasons = [said[2] for said in said_of(report, tmp_path / "train.txt")]
    assert reasons == ["line 4: 0.png has spaces around it", "line 5: x.gif does not end as an image does"]


SETS = {
    "no val in the YAML": ("", "data-unusable", "fails", "'val:' key missing"),
    "names and nc differ": ("nc: 3\n", "data-unusable", "fails", "must match"),
    "kpt_shape is missing": ("", "keypoints-undefined", "fails", "task=pose"),
    "val is not there": ("", "data-unusable", "fails", "missing path"),
    "train is not there": ("", "split-missing", "fails", "no such folder"),
    "test is not there": ("test: images/test\n", "split-missing", "note", "no such folder"),
    "train is empty": ("", "split-empty", "fails", "train has no image"),
    "all of val is dropped": ("", "split-unusable", "fails", "all 1 images of val"),
    "no label in train": ("", "split-unlabelled", "fails", "none of 2 images"),
    "no label in val": ("", "split-unlabelled", "note", "none of 1 images"),
    "val is train": ("", "split-overlap", "note", "2 images of val"),
}


@pytest.mark.parametrize("name", SETS)
def test_what_is_said_of_a_set(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra, code, kind, words = SETS[name]
    yaml = make_set(tmp_path, extra=extra)
    more: list[str] = []
    if name == "no val in the YAML":
        yaml.write_text(f"path: {tmp_path}\ntrain: images/train\nnames: [a, b]\n", encoding="utf-8")
    elif name == "kpt_shape is missing":
        more = ["task=pose"]
    elif name in ("val is not there", "train is not there"):
        write_yaml(tmp_path, **{name.split(maxsplit=1)[0]: "images/nowhere"})
    elif name == "train is empty":
        (tmp_path / "images" / "none").mkdir()
        write_yaml(tmp_path, train="images/none")
    elif name == "all of val is dropped":
        (tmp_path / "images" / "val" / "0.png").write_bytes(b"text")
    elif name.startswith("no label"):
        for label in (tmp_path / "labels" / name.rsplit(maxsplit=1)[-1]).iterdir():
            label.unlink()
    elif name == "val is train":
        write_yaml(tmp_path, val="images/train")
    status, report = checked(yaml, capsys, *more)
    assert status == (kind == "fails")
    assert [said[:2] for said in said_of(report) if said[0] == code] == [(code, kind)]
    assert words in next(said[2] for said in said_of(report) if said[0] == code)
    assert cli.main(["check", f"data={yaml}", *more]) == status
    out = capsys.readouterr().out
    assert code in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "data= is missing"),
        (("data=nowhere.yaml",), "data=nowhere.yaml is not there"),
        (("data=https://example.com/x.yaml",), "would be downloaded"),
        (("data=ul://user/datasets/x",), "would be downloaded"),
        (("data=x.ndjson",), "would be downloaded"),
        (("data={root}/archive.zip",), "is an archive"),
        (("data={root}/images/train/0.png",), "is no YAML"),
        (("data={root}/images",), "holds no YAML"),
        (("data={root}", "task=classify"), "task=classify is not checked"),
        (("data={root}", "imgsz=big"), "imgsz=big is no whole number"),
        (("data={root}", "batch=0"), "batch=0"),
        (("data={root}", "cache=maybe"), "cache=maybe"),
        (("data={root}", "full=perhaps"), "full=perhaps"),
        (("data={root}", "findings=some"), "findings=some"),
        (("data={root}", "format=xml"), "format=xml"),
        (("data={root}", "model=yolo26n.pt"), "model=yolo26n.pt is not known here"),
        (("data={root}", "plot={root}/x.doc"), "cannot be written"),
    ],
)
def test_wrong_requests_get_one_line_and_status_2(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import zipfile

    make_set(tmp_path)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("data.yaml", "")
    status = cli.main(["check", *(a.format(root=tmp_path) for a in arguments)])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert len(captured.err.strip().splitlines()) == 1
    assert says in captured.err


def test_a_data_set_that_the_host_would_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = tmp_path / "downloaded"
    yaml = tmp_path / "data.yaml"
    script = f"download: |\n  from pathlib import Path\n  Path({str(marker)!r}).touch()\n"
    yaml.write_text(f"path: {tmp_path}/none\ntrain: a\nval: b\nnames: [a]\n{script}", encoding="utf-8")
    status, report = checked(yaml, capsys)
    assert status == 1
    assert said_of(report)[0][:2] == ("data-unusable", "fails")
    assert "fetch the data first" in report["findings"][0]["advice"]
    assert not marker.exists()


def test_no_font_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ultralytics.data import utils

    def fetch(font: str = "") -> None:
        raise AssertionError(f"asked for {font}")

    monkeypatch.setattr(utils, "check_font", fetch)
    assert checked(make_set(tmp_path), capsys)[0] == 0
    assert utils.check_font is fetch


def test_nothing_but_json_where_the_host_has_something_to_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = make_set(tmp_path)
    yaml.write_text(yaml.read_text(encoding="utf-8").replace("val:", "validation:"), encoding="utf-8")
    assert cli.main(["check", f"data={yaml}", "format=json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_many_files_are_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    for i in range(10):
        add(tmp_path, f"train/bad{i}.png", b"")
        add(tmp_path, f"train/rows{i}.png", encoded("PNG", noise(seed=i)), "9 0.5 0.5 0.1 0.1\n")
    assert cli.main(["check", f"data={yaml}"]) == 1
    few = capsys.readouterr().out
    assert "10 image-empty: images of zero bytes; copy them again from the source" in few
    assert "and 7 more (findings=all)" in few
    assert few.count("images/train/bad") == 3
    assert few.strip().splitlines()[-1].startswith("training would run and lose data: 20 findings")
    assert cli.main(["check", f"data={yaml}", "findings=all"]) == 1
    every = capsys.readouterr().out
    assert every.count("images/train/bad") == 10
    assert every.count("class 9") == 10


def test_a_listing_ends_where_it_is_long_enough(tmp_path: Path) -> None:
    """Within a folder, and within a list."""
    for i in range(300):
        (tmp_path / f"{i}.png").touch()
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{tmp_path}/{i}.png\n" for i in range(300)), encoding="utf-8")
    for place in (tmp_path, listed):
        found = list_images([str(place)], ["png"], 10)
        assert (len(found.images), found.truncated) == (10, True)


def test_a_label_named_with_the_ending_of_its_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    image = add(tmp_path, "train/a.png", encoded("PNG", noise(seed=9)), None)
    label = tmp_path / "labels/train/a.png.txt"
    label.write_text(ROW, encoding="utf-8")
    _, report = checked(yaml, capsys)
    assert said_of(report, label) == [("label-orphan", "loses", f"1 row for {image.name}")]
    assert "name it a.txt" in next(f["advice"] for f in report["findings"] if f["file"] == str(label))


def test_images_of_other_sizes_with_one_label_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/a.png", encoded("PNG", noise(seed=8)))
    add(tmp_path, "train/a.jpg", encoded("JPEG", noise(size=(40, 40), seed=9)))
    status, report = checked(yaml, capsys)
    assert status == 1
    assert [said[:2] for said in said_of(report)] == [("label-shared", "loses")]


def test_corners_in_the_place_of_centres(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Large boxes in the middle, whose sizes are larger numbers than their centres too, are none."""
    random = np.random.default_rng(0)
    low = random.uniform(0, 0.6, (12, 2))
    corners = np.concatenate([low, low + random.uniform(0.1, 0.4, (12, 2))], 1)
    large = np.concatenate([np.full((12, 2), 0.5), random.uniform(0.6, 1, (12, 2))], 1)
    for name, boxes, found in (("corners", corners, True), ("large", large, False)):
        yaml = make_set(tmp_path / name)
        rows = "".join(f"0 {' '.join(f'{v:.4f}' for v in box)}\n" for box in boxes)
        add(tmp_path / name, "train/a.png", encoded("PNG", noise(seed=9)), rows)
        add(tmp_path / name, "train/b.png", encoded("PNG", noise(seed=10)), rows)
        status, report = checked(yaml, capsys)
        assert ("label-corners" in {said[0] for said in said_of(report)}) == found
        assert status == int(found)
