"""What people see for bad images, labels and places: one row for each, as a table in Markdown.

    python -m benchmarks.badinputs [only=words]

Every case lies beside three healthy images. `yolo-ckpt check` looks at the set, and `yolo-ckpt convert` converts its
images. A case fails, and so does this program, where a command ends with an exception, writes anything but JSON to its
standard output, changes a source, or does not convert the three healthy images.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from tests.data.check.made import IMAGES, ROW, add, encoded, make_set, noise
from tests.data.check.test_images import contents
from tests.data.check.test_labels import LABELS, TRIANGLE
from tests.data.convert.test_dicom import file, made
from tests.data.convert.test_run import BAD
from yolo_ckpt import cli

HEALTHY = 3
NOT_MOUNTED = "not measured: no right to mount"
GREY = np.arange(4096, dtype=np.uint16).reshape(64, 64)
Make = Callable[[Path], Any]


def _copied(name: str) -> Make:
    return lambda path: path.write_bytes(file(name).read_bytes())


def _one_bit(path: Path) -> None:
    Image.new("1", (33000, 33000), 1).save(path)


# Files of other kinds than those of the tests of check: name of the case, file name, maker
FILES: dict[str, tuple[str, Make]] = {
    "1-bit PNG of 33000 x 33000, whole": ("a.png", _one_bit),
    "header of 70000 x 70000 px": ("a.png", BAD["bomb.png"][0]),
    "complex TIFF": ("a.tif", BAD["complex.tif"][0]),
    "EXIF of 60 kB, orientation 6": ("a.jpg", BAD["turned6.jpg"][0]),
    "DICOM, signed": ("a.dcm", lambda p: made(p, GREY.astype(np.int16) - 2000)),
    "DICOM, MONOCHROME1": ("a.dcm", lambda p: made(p, GREY, PhotometricInterpretation="MONOCHROME1")),
    "DICOM without pixels": ("a.dcm", _copied("rtplan.dcm")),
    "DICOM, JPEG 2000": ("a.dcm", _copied("MR_small_jp2klossless.dcm")),
    "DICOM, JPEG-LS, no codec installed": ("a.dcm", _copied("MR_small_jpeg_ls_lossless.dcm")),
    "DICOM cut off": ("a.dcm", _copied("MR_truncated.dcm")),
    "DICOM, two frames": ("a.dcm", _copied("SC_rgb_rle_2frame.dcm")),
    "text named .dcm": ("a.dcm", BAD["text.dcm"][0]),
    "symlink loop": ("loop", BAD["loop"][0]),
    "symlink to nothing": ("a.png", BAD["gone.png"][0]),
    "name with spaces and umlauts": ("Ünïcode with spaces.png", BAD["Ünïcode with spaces.png"][0]),
    "name in Japanese": ("日本.jpg", BAD["日本.jpg"][0]),
}


@dataclass(frozen=True)
class Seen:
    """What a command showed: its exit status, its document, and the lines on standard error."""

    status: int
    report: dict[str, Any]
    err: str


def run(*arguments: str) -> Seen:
    """One command in this process; an exception in it ends this program."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main([*arguments, "format=json"])
    return Seen(status, json.loads(out.getvalue() or "{}"), err.getvalue().strip())


def checked(yaml: Path, *arguments: str) -> str:
    """What check says, and its exit status."""
    seen = run("check", f"data={yaml}", *arguments)
    if not seen.report:
        return f"{_short(seen.err, yaml.parent)} (exit {seen.status})"
    said = [f"{f['kind']}: {f['reason']}; {f['advice']}" for f in seen.report["findings"]]
    return _short(" / ".join(said) or "nothing", yaml.parent) + f" (exit {seen.status})"


def converted(images: Path, dst: Path, *arguments: str, healthy: int = HEALTHY) -> str:
    """What convert says of every file but the healthy ones, and its exit status."""
    seen = run("convert", f"src={images}", f"dst={dst}", *arguments)
    if not seen.report:
        return f"{_short(seen.err, images.parent)} (exit {seen.status})"
    files = seen.report["files"]
    good = [f for f in files if f["done"] == "converted" and f["source"].startswith(("train/0", "train/1.", "val/0"))]
    assert len(good) == healthy, files
    said = []
    for one in files:
        if one not in good:
            parts = (one["done"], *one.get("windows", ()), one.get("why", ""))
            said.append(", ".join(part for part in parts if part))
    said += [f"{note}: {count}" for note, count in seen.report["notes"].items()]
    return _short(" / ".join(said) or "nothing", images.parent) + f" (exit {seen.status})"


def _short(text: str, root: Path) -> str:
    return text.replace(f"{root}/", "").replace("|", "\\|").replace("\n", " ")


def of_file(name: str, make: Make, root: Path, *arguments: str) -> tuple[str, str]:
    """Both commands for one file beside healthy ones."""
    yaml = make_set(root / "set")
    target = root / "set" / "images" / "train" / name
    make(target)
    if target.is_file():
        (root / "set" / "labels" / "train" / name).with_suffix(".txt").write_text(ROW, encoding="utf-8")
    before = contents(root / "set")
    said = checked(yaml), converted(root / "set" / "images", root / "out", *arguments)
    assert contents(root / "set") == before
    return said


def of_label(case: str, root: Path) -> tuple[str, str]:
    """Both commands for one bad label file beside healthy ones."""
    rows, task, _ = LABELS[case]
    yaml = make_set(root / "set")
    for label in (root / "set" / "labels").rglob("*.txt") if task == "segment" else ():
        label.write_text(TRIANGLE, encoding="utf-8")
    add(root / "set", "train/a.png", encoded("PNG"), rows)
    labels = root / "set" / "labels"
    return (
        checked(yaml, f"task={task}"),
        converted(root / "set" / "images", root / "out", f"task={task}", f"labels={labels}"),
    )


def surroundings(root: Path) -> Iterator[tuple[str, str, str]]:
    """Rows for what is not in one file: labels and images without each other, folders, a full disk."""
    yaml = make_set(root / "orphan")
    (root / "orphan/labels/train/gone.txt").write_text(ROW, encoding="utf-8")
    images, labels = root / "orphan/images", root / "orphan/labels"
    given = (f"labels={labels}", "task=detect")
    seen = run("convert", f"src={images}", f"dst={root / 'o1'}", *given)
    yield (
        "label file without image",
        checked(yaml),
        "labels without image: " + ", ".join(seen.report["labels_without_image"]),
    )
    yaml = make_set(root / "bare")
    add(root / "bare", "train/a.png", encoded("PNG", noise(seed=9)), None)
    yield (
        "image without label", checked(yaml),
        converted(root / "bare/images", root / "o2", f"labels={root / 'bare/labels'}", "task=detect"),
    )  # fmt: skip
    yaml = make_set(root / "folder")
    locked = root / "folder/images/train/locked"
    locked.mkdir()
    yield "folder that is empty", checked(yaml), converted(root / "folder/images", root / "o3")
    yield "dst= in a place that cannot be written", "", converted(images, Path("/proc/nowhere"))
    yield "dst= is full (tmpfs of 200 kB)", "", _full_disk(root)
    yield "read-only folder", *_read_only(root)
    yield "src= is not there", "", converted(root / "nowhere", root / "o4")
    yield "data= is not there", checked(root / "nowhere.yaml"), ""
    (root / "bad.yaml").write_text("train: [", encoding="utf-8")
    yield "data= is no YAML", checked(root / "bad.yaml"), ""
    yaml = make_set(root / "noval")
    yaml.write_text(yaml.read_text(encoding="utf-8").replace("images/val", "images/nope"), encoding="utf-8")
    yield "val: leads nowhere", checked(yaml), ""


def _full_disk(root: Path) -> str:
    small, src = root / "small", root / "full"
    small.mkdir()
    src.mkdir()
    for i in range(12):
        cv2.imwrite(str(src / f"{i}.png"), noise(size=(100, 100), seed=i))
    with mounted(small, "size=200k") as done:
        said = converted(src, small / "out") if done else NOT_MOUNTED
        assert not list(small.iterdir())
    return said


def _read_only(root: Path) -> tuple[str, str]:
    place = root / "locked"
    place.mkdir()
    with mounted(place, "size=20m") as done:
        if not done:
            return NOT_MOUNTED, NOT_MOUNTED
        yaml = make_set(place)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        into = converted(place / "images", place / "out")
        return checked(yaml), f"{converted(place / 'images', root / 'o5')}; with dst= in it: {into}"


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[bool]:
    """A file system of its own in a folder; False where there is no right to mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(place)], check=True)


def rows() -> Iterator[tuple[str, Callable[[Path], tuple[str, str]]]]:
    """Cases of one file: their names, and what runs them in a folder."""
    for case, (name, content) in IMAGES.items():
        if not case.startswith("healthy"):
            yield case, lambda root, n=name, c=content: of_file(n, lambda p: p.write_bytes(c()), root)
    for case, (name, make) in FILES.items():
        tiled = ("tile=4096",) if "whole" in case else ()
        yield case, lambda root, n=name, m=make, t=tiled: of_file(n, m, root, *t)
    for case in LABELS:
        yield f"label: {case}", lambda root, c=case: of_label(c, root)


def main() -> None:
    """Print the table."""
    only = dict(a.split("=", 1) for a in sys.argv[1:]).get("only", "")
    print("| input | check | convert |\n|---|---|---|")
    count = 0
    for case, run_in in rows():
        if only not in case:
            continue
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {case} | {' | '.join(run_in(Path(folder)))} |", flush=True)
        count += 1
    if not only:
        with tempfile.TemporaryDirectory() as folder:
            for row in surroundings(Path(folder)):
                print(f"| {' | '.join(row)} |", flush=True)
                count += 1
    print(f"\n{count} inputs", file=sys.stderr)


if __name__ == "__main__":
    main()
