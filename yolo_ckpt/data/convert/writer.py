"""The new data set on the disk: images, labels, data.yaml, and moving the whole into place."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import tifffile

from yolo_ckpt.data.convert.limits import JPEG_MOST_SIDE
from yolo_ckpt.data.convert.problems import BrokenFileError, raise_if_full
from yolo_ckpt.data.convert.sources import REPORT
from yolo_ckpt.data.newfolder import new_folder
from yolo_ckpt.errors import ConvertError

SPLITS = ("train", "val", "test")


def encoded(levels: npt.NDArray[np.uint8], jpeg: int) -> tuple[bytes, str]:
    """A file's content and suffix for (H, W, C) levels: PNG or JPEG for one and three channels, else a TIFF with a page
    for each channel, which is what the host reads as channels. None of them says anything but the pixels.

    Raises:
        BrokenFileError: JPEG has no such size.
    """
    channels = levels.shape[2]
    if channels not in (1, 3):
        file = io.BytesIO()
        pages = levels.transpose(2, 0, 1)
        tifffile.imwrite(file, pages, photometric="minisblack", compression="zlib", metadata=None, software=False)
        return file.getvalue(), ".tiff"
    if jpeg and max(levels.shape) > JPEG_MOST_SIDE:
        raise BrokenFileError(f"JPEG has no sides above {JPEG_MOST_SIDE} px; leave out jpeg=, or add tile=")
    suffix, options = (".jpg", [cv2.IMWRITE_JPEG_QUALITY, jpeg]) if jpeg else (".png", [])
    whole, data = cv2.imencode(suffix, np.ascontiguousarray(levels[..., ::-1]), options)
    assert whole
    return data.tobytes(), suffix


@contextmanager
def folder_for(dst: Path) -> Iterator[Path]:
    """A folder to write the data set to, which goes to `dst` at the end.

    Raises:
        ConvertError: There is no place for it.
    """
    with new_folder(dst, "dst", ConvertError) as folder:
        for split in SPLITS:
            (folder / "images" / split).mkdir(parents=True)
            (folder / "labels" / split).mkdir(parents=True)
        yield folder


def label_file(image: Path) -> Path:
    """The label file of an image in `images/SPLIT/`."""
    return image.parents[2] / "labels" / image.parent.name / f"{image.stem}.txt"


def drop_strays(folder: Path, images: Iterable[str]) -> None:
    """Takes away every file but these images and their labels: what failed files and processes that died have left."""
    kept = {folder / image for image in images}
    kept |= {label_file(image) for image in kept}
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


def finish_labels(folder: Path, names: Sequence[str]) -> int:
    """Class names become numbers; rows of classes that are not among `names` go.

    Returns:
        How many files have no row left.
    """
    number = {name: index for index, name in enumerate(names)}
    emptied = 0
    for path in (folder / "labels").rglob("*.txt"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [f"{number[name]} {values}\n" for name, values in rows if name in number]
        emptied += int(bool(rows) and not lines)
        write_text(path, "".join(lines))
    return emptied


def finish(
    folder: Path, dst: Path, names: Sequence[str], *, task: str, channels: int, counts: Mapping[str, int]
) -> None:
    """data.yaml, and no empty folders for splits that have no images. Without images to validate, those to train do."""
    for split in SPLITS:
        if not counts.get(split):
            for kind in ("images", "labels"):
                shutil.rmtree(folder / kind / split)
    train = "train" if counts.get("train") else "val"
    lines = [f"# made by yolo-ckpt convert; task: {task}", f"path: {_quoted(str(dst.resolve()))}"]
    lines += [f"train: images/{train}", f"val: images/{'val' if counts.get('val') else train}"]
    lines += ["test: images/test"] if counts.get("test") else []
    lines += [f"channels: {channels}"] if channels not in (1, 3) else []
    lines += ["names:", *(f"  {index}: {_quoted(name)}" for index, name in enumerate(names))]
    write_text(folder / "data.yaml", "\n".join(lines) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a file; a full disk ends the run.

    Raises:
        ConvertError: There is no room.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise_if_full(error)
        raise ConvertError(f"{path.name} cannot be written ({error.strerror})") from error


def write_report(folder: Path, report: Any) -> None:
    """convert_report.json."""
    write_text(folder / REPORT, json.dumps(report, indent=1) + "\n")  # any name is ASCII there


def _quoted(text: str) -> str:
    known = text.encode("utf-8", "replace").decode()
    return json.dumps(known, ensure_ascii=False)  # a JSON text is a YAML text
