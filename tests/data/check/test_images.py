"""What is said about each kind of bad image, and that the host does with it what is said."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.check.made import IMAGES, SIZE, add, encoded, make_set, noise, png16, tiff, write_yaml
from yolo_ckpt import cli

pytest.importorskip("ultralytics")

# code, kind, words that the user reads; None where there is nothing to say
SAID: dict[str, tuple[str, str, str] | None] = {
    **{name: None for name in IMAGES if name.startswith("healthy")},
    "PNG with bytes after its end": None,
    "JPEG by the name of a PNG": None,
    "zero bytes": ("image-empty", "loses", "zero bytes"),
    "text by the name of a PNG": ("image-unreadable", "loses", "it is text"),
    "JPEG cut off": ("image-truncated", "loses", "the host drops it"),
    "JPEG with bytes after its end": ("image-rewritten", "loses", "not the end marker"),
    "PNG cut off": ("image-truncated", "loses", "the host drops it"),
    "PNG without its last byte": ("image-truncated", "fails", "training stops"),
    "TIFF cut off": ("image-truncated", "fails", "training stops"),
    "tiled TIFF cut off": ("image-truncated", "fails", "training stops"),
    "BMP cut off": ("image-truncated", "fails", "training stops"),
    "WebP cut off": ("image-truncated", "loses", "the host drops it"),
    "JPEG 2000 cut off": ("image-truncated", "fails", "training stops"),
    "GIF by the name of a PNG": ("image-format", "loses", "it is GIF inside"),
    "DICOM by the name of a PNG": ("image-unreadable", "loses", "it is a DICOM file"),
    "HEIC": ("image-unreadable", "loses", "pi-heif"),
    "CMYK": ("image-cmyk", "note", "CMYK"),
    "palette": ("image-palette", "note", "palette"),
    "1 bit": ("image-bilevel", "note", "1 bit"),
    "1-bit PNG of 33000 x 33000": ("image-too-large", "loses", "1089 megapixels"),
    "9 px": ("image-too-small", "loses", "40 x 9 px"),
    "16 bits with values 0 to 2047": ("image-few-levels", "loses", "16 bits: 8 of 1,886 levels are left"),
    "16-bit colours with values 0 to 2047": ("image-few-levels", "loses", "16 bits: 8 of"),
    "16-bit TIFF with values 0 to 2047": ("image-few-levels", "loses", "16 bits: 8 of"),
    "16 bits over the full range": ("image-deep", "note", "256 of"),
    "signed 16 bits": ("image-few-levels", "loses", "8 levels are left"),
    "32 bits": ("image-undecodable", "fails", "32-bit TIFF, 1 channel"),
    "float TIFF with NaN": ("image-undecodable", "fails", "32-bit float"),
    "float colours": ("image-unreadable", "loses", "float32"),
    "eight bands": ("image-unreadable", "loses", "(64, 80, 8)"),
    "two bands": ("image-bands", "loses", "2 bands"),
    "five pages": ("image-pages", "loses", "5 pages"),
    "TIFF with a codec that OpenCV lacks": ("image-undecodable", "fails", "OpenCV makes nothing"),
    "EXIF orientation 6": ("image-turned", "note", "64 x 80 px upright"),
    "EXIF orientation 65535": ("image-orientation", "note", "there are 1 to 8"),
}
DROPPED = {"image-unreadable", "image-empty", "image-format", "image-too-small", "image-too-large"}


def checked(yaml: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of the command."""
    status = cli.main(["check", f"data={yaml}", "format=json", *more])
    captured = capsys.readouterr()
    assert captured.err == ""
    return status, json.loads(captured.out)


def said_of(report: dict[str, Any], path: Path | None = None) -> list[tuple[str, str, str]]:
    """Code, kind and reason of the findings about one file, or of all."""
    return [(f["code"], f["kind"], f["reason"]) for f in report["findings"] if path in (None, Path(f["file"]))]


def contents(root: Path) -> dict[Path, str]:
    """A hash of every file."""
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", IMAGES)
def test_what_is_said(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    file, make = IMAGES[name]
    image = add(tmp_path, f"train/{file}", make())
    before = contents(tmp_path)
    status, report = checked(yaml, capsys)
    expected = SAID[name]
    if expected is None:
        assert said_of(report) == []
        assert status == 0
    else:
        [(code, kind, reason)] = said_of(report, image)
        assert (code, kind) == expected[:2]
        assert expected[2] in reason
        assert len(report["findings"]) == 1
        assert report["findings"][0]["advice"]
        assert status == (kind != "note")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", IMAGES)
def test_the_host_does_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its label scan drops or rewrites, and its loader stops, exactly where the check says so."""
    from ultralytics.data.utils import verify_image_label
    from ultralytics.utils import checks
    from ultralytics.utils.patches import imread

    monkeypatch.setattr(checks, "check_requirements", lambda *_, **__: False)  # it would install a reader of HEIC
    file, make = IMAGES[name]
    path, content = tmp_path / file, make()
    path.write_bytes(content)
    kept = verify_image_label((str(path), str(tmp_path / "a.txt"), "", False, 2, 0, 0, False))[0] is not None
    does = "drops" if not kept else "rewrites" if path.read_bytes() != content else "keeps"
    if does == "keeps" and imread(path) is None:
        does = "stops"
    code, kind, _ = SAID[name] or ("", "", "")
    says = {"image-rewritten": "rewrites"}.get(code, "stops" if kind == "fails" else "keeps")
    if code in DROPPED or (code == "image-truncated" and kind == "loses"):
        says = "drops"
    assert says == does


def test_full_decodes_what_headers_do_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml, whole = make_set(tmp_path), encoded("PNG")
    at = whole.index(b"IDAT") + 20
    image = add(tmp_path, "train/a.png", whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    assert said_of(checked(yaml, capsys)[1]) == []
    status, report = checked(yaml, capsys, "full=True")
    assert status == 1
    assert said_of(report, image)[0][:2] == ("image-unreadable", "loses")
    assert "checksum" in said_of(report, image)[0][2]


def test_beyond_the_limit_a_sample_is_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from yolo_ckpt.data.check import judge

    yaml = make_set(tmp_path)
    deep = IMAGES["16 bits with values 0 to 2047"][1]
    images = [add(tmp_path, f"train/deep{i}.png", deep() + bytes(i)) for i in range(4)]
    monkeypatch.setattr(judge, "MOST_DECODED_PIXELS", 2 * SIZE[0] * SIZE[1])
    status, report = checked(yaml, capsys)
    assert (status, report["undecoded"]) == (1, 2)
    reasons = [said_of(report, image) for image in images]
    assert [len(r) for r in reasons] == [1] * 4
    assert {r[0][0] for r in reasons} == {"image-few-levels"}
    assert sum("not decoded" in r[0][2] for r in reasons) == 2
    assert checked(yaml, capsys, "full=True")[1]["undecoded"] == 0


def test_channels_of_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path, extra="channels: 4\n")
    image = add(tmp_path, "train/a.png", encoded("PNG", noise(4)))
    turned = add(tmp_path, "train/b.jpg", IMAGES["EXIF orientation 6"][1]())
    status, report = checked(yaml, capsys)
    assert status == 1
    assert said_of(report, image) == []
    codes = [f["code"] for f in report["findings"]]
    assert codes.count("image-channels") == 4  # the three of the set, and the JPEG
    assert ("image-turned", "loses") in [said[:2] for said in said_of(report, turned)]


def test_pages_are_channels_where_the_data_set_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    pages = tiff(np.stack([noise(1, seed=i) for i in range(5)]), photometric="minisblack")
    for name in ("train/a.tif", "val/b.tif"):
        add(tmp_path, name, pages)
    status, report = checked(write_yaml(tmp_path, extra="channels: 5\n"), capsys)
    assert status == 0
    assert [f["code"] for f in report["findings"]] == ["image-leak"]


def test_names_that_work_are_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "Aufnahmen 2026 Größe 写真"
    yaml = make_set(root)
    add(root, "train/Röntgen bild (1)  é.png", encoded("PNG"))
    status, report = checked(yaml, capsys)
    assert (status, report["findings"]) == (0, [])
    assert report["splits"]["train"]["objects"] == 3


def test_names_that_are_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, os.fsdecode(b"train/\xff.png"), encoded("PNG"))
    status, report = checked(yaml, capsys)
    assert status == 0
    assert [f["code"] for f in report["findings"]] == ["image-name"]
    assert cli.main(["check", f"data={yaml}"]) == 0
    assert "\\udcff.png" in capsys.readouterr().out


def test_an_array_that_is_loaded_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    yaml = make_set(tmp_path)
    image = tmp_path / "images" / "train" / "0.png"
    np.save(image.with_suffix(".npy"), noise())
    assert said_of(checked(yaml, capsys)[1], image)[0][0] == "image-replaced"
    os.utime(image.with_suffix(".npy"), (1, 1))
    assert said_of(checked(yaml, capsys)[1]) == []


def test_same_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    first = tmp_path / "images" / "train" / "0.png"
    large = encoded("BMP", noise(size=(200, 200)))
    add(tmp_path, "train/a.bmp", large)
    add(tmp_path, "train/b.bmp", large[:60_000] + b"\1" + large[60_001:])  # the same size and ends
    add(tmp_path, "train/c.bmp", large)
    os.link(first, first.with_name("linked.png"))
    shutil.copy(first, tmp_path / "images" / "val" / "copy.png")
    for name in ("train/linked", "val/copy"):
        (tmp_path / "labels" / name).with_suffix(".txt").write_text("0 0.5 0.5 0.25 0.25\n")
    status, report = checked(yaml, capsys)
    said = {f["code"]: (Path(f["file"]).name, f["reason"]) for f in report["findings"]}
    assert status == 0
    assert set(said) == {"image-duplicate", "image-leak"}
    assert said["image-duplicate"][0] == "a.bmp"
    assert said["image-duplicate"][1].endswith("c.bmp")
    assert "in train, the same as" in said["image-leak"][1]
    assert said["image-leak"][1].endswith("copy.png in val and 1 more")


def test_a_box_that_is_longer_than_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    content = struct.pack(">I8s4xI4s2x", 16, b"ftypavif", 1, b"mdat")
    image = add(tmp_path, "train/a.avif", content)
    assert said_of(checked(yaml, capsys)[1], image)[0][:2] == ("image-truncated", "loses")


def test_images_of_two_splits_are_decoded_and_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_set(tmp_path)
    for i in range(5):
        add(tmp_path, f"train/deep{i}.png", png16(noise(1, 2048, np.uint16, seed=i)))
    yaml = write_yaml(tmp_path, val="images/train")
    assert checked(yaml, capsys, "full=True")[1]["undecoded"] == 0


def test_images_of_a_single_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    image = add(tmp_path, "train/a.png", encoded("PNG", np.full((64, 80, 3), 7, np.uint8)))
    assert said_of(checked(yaml, capsys, "full=True")[1], image) == [
        ("image-uniform", "note", "every pixel is the same")
    ]
