"""What the samples share: their record, and how images, labels and YAML files are written."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from yolo_ckpt.errors import SampleError

Image = NDArray[Any]  # (H, W) or (H, W, C)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sample data set.

    Attributes:
        write: Writes it: the folder to write into, and the folder where it will lie in the end.
        yamls: Its YAML files, relative to that folder.
    """

    write: Callable[[Path, Path], None]
    yamls: tuple[str, ...] = ("data.yaml",)


def copy_member(archive: zipfile.ZipFile, member: str, target: Path) -> None:
    """One file out of an archive, unchanged."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out)


def write_image(path: Path, image: Image, *parameters: int) -> None:
    """An image in the format that the suffix of `path` names; `parameters` are those of `cv2.imencode`.

    Raises:
        SampleError: OpenCV cannot encode it.
    """
    import cv2

    done, data = cv2.imencode(path.suffix, image, list(parameters))
    if not done:
        raise SampleError(f"{path.name} could not be encoded by OpenCV {cv2.__version__}; nothing was written")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.tobytes())


def decoded(data: bytes) -> Image:
    """An image file's pixels as they are stored: depth and channels unchanged."""
    import cv2

    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED))


def label_line(kind: int, box: tuple[float, float, float, float], width: int, height: int) -> str:
    """A label line `class x y w h`, in shares of the image, for a box x0, y0, x1, y1 in pixels."""
    x0, y0, x1, y1 = box
    numbers = ((x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height)
    return " ".join([str(kind), *(f"{number:.7f}" for number in numbers)])


def write_labels(path: Path, lines: Iterable[str]) -> None:
    """A label file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_yaml(path: Path, final: Path, names: Mapping[int, str]) -> None:
    """A data set's YAML file at `path`, for images in `images/train` and `images/val` of the folder `final`."""
    content = {"path": str(final.resolve()), "train": "images/train", "val": "images/val", "names": dict(names)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000), encoding="utf-8")
