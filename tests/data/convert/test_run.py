"""Whole conversions: bad files beside good ones, splits, and what a failure leaves behind."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.data.convert.conftest import Done, smooth
from tests.data.convert.test_dicom import file, made
from yolo_ckpt import cli
from yolo_ckpt.data.convert import writer


def huge_png(path: Path, width: int, height: int, rows: int = 100) -> None:
    """A black 1-bit PNG of so many pixels by its header; fewer rows are there, since nobody should unpack it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    data = packer.compress(b"\0" * (1 + (width + 7) // 8) * rows) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def half(path: Path, suffix: str) -> None:
    whole = path.with_suffix(suffix)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)).save(whole)
    data = whole.read_bytes()
    whole.unlink()
    path.write_bytes(data[: len(data) // 2])


def exif(path: Path, orientation: int, size: int = 0) -> None:
    """An image whose EXIF has an orientation that is none, or a block as large as JPEG takes."""
    found = Image.Exif()
    found[274] = orientation
    found[0x010E] = "x" * size
    Image.fromarray(smooth(40, 60)).save(path, exif=found)


def link(path: Path, target: str) -> None:
    path.symlink_to(target)


DEEP = np.random.default_rng(0).integers(0, 2048, (64, 64), dtype=np.uint16)
GREY = np.arange(4096, dtype=np.uint16).reshape(64, 64)
# What people have, and what they are told about it; empty where it is converted.
BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut.jpg": (lambda p: half(p, ".jpg"), "truncated"),
    "cut.png": (lambda p: half(p, ".png"), "cut off"),
    "cut.tif": (lambda p: half(p, ".tif"), "cannot be read"),
    "cut.webp": (lambda p: half(p, ".webp"), "cannot be read"),
    "zero.png": (lambda p: p.write_bytes(b""), "it is empty (0 bytes)"),
    "zero.dcm": (lambda p: p.write_bytes(b""), "it is empty (0 bytes)"),
    "text.png": (lambda p: p.write_text("no image at all"), "it is no image"),
    "text.dcm": (lambda p: p.write_text("no image at all " * 20), "it is no DICOM file"),
    "head.png": (lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n"), "cannot be read"),
    "cmyk.jpg": (lambda p: Image.fromarray(smooth(40, 40)).convert("CMYK").save(p), ""),
    "palette.png": (lambda p: Image.fromarray(smooth(40, 40)).convert("P").save(p), ""),
    "deep.png": (lambda p: cv2.imwrite(str(p), DEEP), ""),
    "nan.tif": (lambda p: tifffile.imwrite(p, np.full((32, 32), np.nan, np.float32)), "it holds no finite value"),
    "complex.tif": (lambda p: tifffile.imwrite(p, np.zeros((32, 32), np.complex64)), "complex"),
    "bands.tif": (
        lambda p: tifffile.imwrite(
            p, np.zeros((8, 32, 32), np.uint8), photometric="minisblack", planarconfig="separate"
        ),
        "it has 8 bands; choose three with bands=4,3,2",
    ),
    "huge.png": (lambda p: huge_png(p, 33000, 33000), "33000 x 33000 px: training drops images above 179 megapixels"),
    "bomb.png": (lambda p: huge_png(p, 70000, 70000), "its header says 70000 x 70000 px"),
    "small.png": (lambda p: Image.fromarray(smooth(9, 40)).save(p), "training drops images with a side below 10 px"),
    "signed.dcm": (lambda p: made(p, GREY.astype(np.int16) - 2000), ""),
    "mono1.dcm": (lambda p: made(p, GREY, PhotometricInterpretation="MONOCHROME1"), ""),
    "cut.dcm": (lambda p: p.write_bytes(file("MR_truncated.dcm").read_bytes()), "8130 vs 8192 bytes"),
    "jls.dcm": (lambda p: p.write_bytes(file("MR_small_jpeg_ls_lossless.dcm").read_bytes()), "pip install pyjpegls"),
    "turned999.jpg": (lambda p: exif(p, 999), ""),
    "turned6.png": (lambda p: exif(p, 6, size=3_000_000), ""),
    "turned6.jpg": (lambda p: exif(p, 6, size=60_000), ""),
    "loop": (lambda p: link(p, "."), ""),
    "gone.png": (lambda p: link(p, "nowhere.png"), "it cannot be opened"),
    "Ünïcode with spaces.png": (lambda p: Image.fromarray(smooth(40, 40)).save(p), ""),
    "日本.jpg": (lambda p: Image.fromarray(smooth(40, 40)).save(p), ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_beside_a_good_one(name: str, src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "good.png")
    make, says = BAD[name]
    make(src / name)
    done: Done = convert(src, "format=json")
    assert "Traceback" not in done.out + done.err
    assert done.status == int(bool(says))
    record = {f["source"]: f for f in json.loads(done.out)["files"]}
    assert record["good.png"]["done"] == "converted"
    if says:
        assert says in record[name]["why"]
        assert len(done.images()) == 1
    assert (done.image("good") == smooth(40, 40)).all()


def test_all_of_them_at_once_in_processes(src: Path, convert: Any) -> None:
    for name, (make, _) in BAD.items():
        make(src / name)
    Image.fromarray(smooth(40, 40)).save(src / "good.png")
    before = snapshot(src)
    done: Done = convert(src, "workers=2")
    wanted = {name for name, (_, says) in BAD.items() if not says and name != "loop"}
    assert done.status == 1
    converted = [f for f in done.report["files"] if f["done"] == "converted"]
    assert len(converted) == len(wanted) + 1
    assert len(done.images()) == len(converted)
    assert f"converted {len(converted)} of {len(BAD)} files" in done.out
    assert snapshot(src) == before


def snapshot(folder: Path) -> dict[str, tuple[str, int]]:
    """Content and time of every file."""
    return {
        str(p): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns)
        for p in sorted(folder.iterdir())
        if p.is_file()
    }


def test_nothing_is_written_where_nothing_can_be_converted(src: Path, convert: Any, tmp_path: Path) -> None:
    (src / "a.png").write_text("text", encoding="utf-8")
    done: Done = convert(src)
    assert done.status == 1
    assert "converted none of 1 files; nothing was written" in done.out
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_the_host_trains_on_it(src: Path, convert: Any) -> None:
    from ultralytics.data.utils import check_det_dataset

    for i in range(5):
        Image.fromarray(smooth(40, 40, i)).save(src / f"{i}.png")
        (src / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    done: Done = convert(src, "classes=it's a class: yes")
    data = check_det_dataset(done.dst / "data.yaml")
    assert data["names"] == {0: "it's a class: yes"}
    assert (len(done.images("train")), len(done.images("val"))) == (4, 1)
    assert Path(data["train"]).is_dir()
    assert Path(data["val"]).is_dir()


def test_a_source_that_cannot_be_written_to(src: Path, convert: Any) -> None:
    for i in range(3):
        Image.fromarray(smooth(40, 40, i)).save(src / f"{i}.jpg")
    before = snapshot(src)
    src.chmod(0o555)
    try:
        assert convert(src).status == 0
    finally:
        src.chmod(0o755)
    assert snapshot(src) == before


def test_a_single_file(src: Path, convert: Any) -> None:
    for i in range(2):
        Image.fromarray(smooth(40, 40, i)).save(src / f"{i}.png")
        (src / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    done: Done = convert(src / "1.png")
    assert [p.stem for p in done.images()] == ["1"]
    assert len(done.rows("1")) == 1
    assert "metrics say nothing about new ones" in done.out


def test_jpeg(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    done: Done = convert(src, "jpeg=95")
    assert done.images()[0].suffix == ".jpg"
    assert np.abs(done.image("a").astype(int) - smooth(40, 40)).mean() < 3


def test_json_is_one_document_and_nothing_else(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    done: Done = convert(src, "format=json")
    assert json.loads(done.out)["images"] == {"train": 1}
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize("place", ["image", "label", "yaml", "report"])
def test_a_full_disk_leaves_nothing_behind(
    place: str, src: Path, convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    (src / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    ending = {"image": ".png", "label": ".txt", "yaml": "data.yaml", "report": "convert_report.json"}[place]

    def guarded(write: Callable[..., int]) -> Callable[..., int]:
        def full(self: Path, *args: Any, **kwargs: Any) -> int:
            if str(self).endswith(ending):
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, *args, **kwargs)

        return full

    monkeypatch.setattr(Path, "write_bytes", guarded(Path.write_bytes))
    monkeypatch.setattr(Path, "write_text", guarded(Path.write_text))
    done: Done = convert(src)
    assert done.status == 1
    assert len(done.err.strip().splitlines()) == 1
    assert "the disk of dst= is full" in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_a_really_full_disk(src: Path, convert: Any, tmp_path: Path) -> None:
    """A file system of 200 kB, where the tests may mount one."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount")
    try:
        for i in range(12):
            noise = np.random.default_rng(i).integers(0, 256, (100, 100, 3), np.uint8)
            Image.fromarray(noise).save(src / f"{i}.png")
        for workers in (1, 2):
            done: Done = convert(src, f"workers={workers}", dst="small/out")
            assert (done.status, done.out) == (1, "")
            assert "the disk of dst= is full" in done.err
            assert not list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_target_that_cannot_be_written(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    done: Done = convert(src, dst="/proc/nowhere")
    assert done.status == 1
    assert len(done.err.strip().splitlines()) == 1
    assert "cannot be written" in done.err


def test_ctrl_c_in_this_process(src: Path, convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    done: Done = convert(src)
    assert (done.status, done.err) == (1, f"yolo-ckpt: stopped; nothing was written to dst={done.dst}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_ctrl_c_leaves_nothing_behind(src: Path, tmp_path: Path) -> None:
    for i in range(40):
        noise = np.random.default_rng(i).integers(0, 256, (700, 700, 3), np.uint8)
        Image.fromarray(noise).save(src / f"{i}.bmp")
    command = [
        sys.executable, "-m", "yolo_ckpt", "convert", f"src={src}", f"dst={tmp_path / 'out'}", "workers=2",
    ]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.*/out/images/*/*.png")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err.strip() == f"yolo-ckpt: stopped; nothing was written to dst={tmp_path / 'out'}"
    assert out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_many_failures_and_odd_names_fit_the_screen(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "good.png")
    for i in range(30):
        (src / f"[red]{i:02d}\nname.png").write_bytes(b"")
    done: Done = convert(src, "workers=1")
    assert "[red]00?name.png" in done.out
    assert "... and 10 more; convert_report.json and format=json list all" in done.out
    assert "failed: 30 of 31 files, listed above" in done.out
    assert len(done.failed) == 30


def test_what_a_dead_process_left_is_not_in_the_data_set(
    src: Path, convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose third tile cannot be written leaves two; so does one whose process dies there."""
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    Image.fromarray(smooth(100, 300)).save(src / "b.png")
    (src / "b.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    write = Path.write_bytes

    def limited(self: Path, data: bytes) -> int:
        if self.name.startswith("b__") and len(list(tmp_path.glob(".out.*/out/images/*/b__*"))) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", limited)
    done: Done = convert(src, "tile=100", "overlap=0", "val=0")
    assert done.failed == {"b.png": "it cannot be converted: Input/output error"}
    assert [p.stem for p in done.images()] == ["a"]
    assert not list(done.dst.rglob("b__*"))


def test_an_empty_target_is_taken(src: Path, convert: Any, tmp_path: Path) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    (tmp_path / "out").mkdir()
    assert convert(src).status == 0
    assert convert(src).status == 2  # now it is not empty


def test_a_target_within_the_source(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    assert convert(src, dst="src/yolo").status == 0


def test_the_move_into_place_can_fail(src: Path, convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(writer.Path, "rename", refuse)
    done: Done = convert(src)
    assert done.status == 1
    assert "cannot be put in place" in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["src"]


def test_too_large_for_the_memory(src: Path, convert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    Image.fromarray(smooth(400, 400)).save(src / "a.png")
    Image.fromarray(smooth(20, 20)).save(src / "b.png")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000))
    done: Done = convert(src)
    assert done.status == 1
    assert "uncompressed TIFF" in done.failed["a.png"]
    assert [p.stem for p in done.images()] == ["b"]


def test_names_that_meet(src: Path, convert: Any) -> None:
    """Two pages of one file, and a file that is called as the first of them."""
    tifffile.imwrite(src / "scan.tif", np.zeros((2, 40, 40), np.uint8), photometric="minisblack")
    Image.fromarray(smooth(40, 40)).save(src / "scan_000.png")
    done: Done = convert(src, "val=0")
    assert len(done.images()) == done.report["images"]["train"] == 3


@pytest.mark.skipif(sys.platform != "linux", reason="file names are Unicode elsewhere")
def test_a_name_that_is_not_utf8(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / os.fsdecode(b"caf\xe9.png"))
    for options in ((), ("format=json",)):
        done: Done = convert(src, *options, dst=f"out{len(options)}")
        assert done.status == 0, done.err
        assert len(done.images()) == 1


def test_a_folder_that_cannot_be_listed(src: Path, convert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    (src / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    done: Done = convert(src)
    assert done.status == 1
    assert done.failed == {"closed": "the folder cannot be listed: Permission denied"}


def test_a_folder_for_val_alone_is_kept(src: Path, convert: Any) -> None:
    for folder, count in (("images", 6), ("val", 4)):
        (src / folder).mkdir()
        for i in range(count):
            Image.fromarray(smooth(40, 40, i)).save(src / folder / f"{folder}{i}.png")
    done: Done = convert(src)
    assert sorted(path.stem for path in done.images("val")) == ["val0", "val1", "val2", "val3"]
    assert (
        "the splits are as the folders (or the names of the label files) have them, all else trains"
        in (done.report["lines"])
    )


def test_a_target_that_is_there_stays(src: Path, convert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to another place, a mounted disk, the folder that the shell is in."""
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    assert convert(src, dst="link").status == 0
    assert link.is_symlink()
    assert sorted(p.name for p in place.iterdir()) == ["convert_report.json", "data.yaml", "images", "labels"]
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert cli.main(["convert", f"src={src}", "dst=."]) == 0
    assert (here / "data.yaml").is_file()


def test_what_was_converted_before_is_no_source(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    assert convert(src, dst="src/yolo").status == 0
    again: Done = convert(src)
    assert [r["source"] for r in again.report["files"]] == ["a.png"]
    tiles: Done = convert(src / "yolo", "tile=40", dst="tiles")  # and it may be one itself
    assert len(tiles.images()) == 1


def test_pictures_of_other_kinds_are_listed(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    for name in ("vol.nii.gz", "b.svs"):
        (src / name).write_bytes(b"x")
    done: Done = convert(src)
    assert done.status == 0
    assert {r["source"]: r["done"] for r in done.report["files"]} == {
        "a.png": "converted", "b.svs": "left out", "vol.nii.gz": "left out"
    }  # fmt: skip
    assert ".nii is not read here" in convert(src, dst="shown").out


def test_options_for_tiles_need_tiles(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    done: Done = convert(src, "overlap=0.2")
    assert done.status == 2
    assert "overlap=0.2 is for tiles" in done.err


def test_labels_none_says_nothing_of_labels(src: Path, convert: Any) -> None:
    Image.fromarray(smooth(40, 40)).save(src / "a.png")
    assert "no labels were found" not in convert(src, "labels=none").out
