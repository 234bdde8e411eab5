"""Made images and labels, and the command run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from yolo_ckpt import cli


@dataclass(frozen=True)
class Done:
    """What a run of the command left."""

    status: int
    out: str
    err: str
    dst: Path

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.dst / "convert_report.json").read_text(encoding="utf-8"))

    @property
    def failed(self) -> dict[str, str]:
        return {f["source"]: f["why"] for f in self.report["files"] if f["done"] == "failed"}

    def images(self, split: str = "*") -> list[Path]:
        return sorted(self.dst.glob(f"images/{split}/*"))

    def image(self, stem: str) -> npt.NDArray[Any]:
        """The pixels of an image as they are in the file, colours in RGB."""
        (path,) = self.dst.glob(f"images/*/{stem}.*")
        pixels = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
        return pixels if pixels.ndim == 2 else pixels[..., ::-1]

    def rows(self, stem: str) -> list[list[float]]:
        """The rows of a label."""
        (path,) = self.dst.glob(f"labels/*/{stem}.txt")
        return [[float(n) for n in line.split()] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """`convert(src, "task=segment", ...)`; the data set is in `tmp_path/out`."""

    def run(src: Path, *arguments: str, dst: str = "out") -> Done:
        target = tmp_path / dst
        status = cli.main(["convert", f"src={src}", f"dst={target}", *arguments])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err, target)

    return run


@pytest.fixture
def src(tmp_path: Path) -> Path:
    """An empty folder for sources."""
    folder = tmp_path / "src"
    folder.mkdir()
    return folder


def smooth(height: int, width: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """A smooth colour picture, (H, W, 3)."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, height // 8), max(2, width // 8), 3), dtype=np.uint8)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def blobs(height: int, width: int, count: int, seed: int = 0) -> npt.NDArray[np.uint16]:
    """A mask with up to `count` objects of odd, concave shapes, numbered from 1."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), np.uint16)
    for number in range(1, count + 1):
        centre = rng.uniform((10, 10), (width - 10, height - 10))
        angles = np.sort(rng.uniform(0, 2 * np.pi, 12))
        radii = rng.uniform(4, 14, 12)
        ring = centre + np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None]
        cv2.fillPoly(mask, [np.rint(ring).astype(np.int32)], number)
    return mask
