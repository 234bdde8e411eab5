"""Sample data sets: real images with licences that allow it, fetched once and written as YOLO data sets."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from yolo_ckpt.data.voc import yolo_lines
from yolo_ckpt.data.wheels import Wheel, opened
from yolo_ckpt.errors import SettingsError

DEEPFOREST = Wheel(
    name="deepforest",
    version="2.1.0",
    sha256="8c2798d8e9be7f0004b194fe207b76c1d9fff6e711b3db67b9508dcd5d00ae54",
)
AERIAL = {
    "train": "2019_YELL_2_528000_4978000_image_crop2",
    "val": "2019_YELL_2_541000_4977000_image_crop",
}
AERIAL_NOTE = """\
Aerial photographs of tree crowns, Yellowstone (NEON site YELL), 2019, with their bounding boxes.

Taken unchanged out of the DeepForest 2.1.0 wheel, which its authors (Ben Weinstein, Henry Senyondo, Ethan White and
others, see AUTHORS.md) publish under the MIT licence that stands beside this file. The photographs come from the
National Ecological Observatory Network (NEON). The labels were converted from Pascal VOC to YOLO.
"""


def write_sample(name: str, folder: Path) -> tuple[Path, bool]:
    """Write the sample data set `name` into `folder`, unless it is there.

    Returns:
        The data set's YAML file, and whether anything was written.

    Raises:
        SettingsError: There is no such sample, or `folder` holds something else.
        SampleError: It could not be fetched; nothing is left behind.
    """
    if name not in SAMPLES:
        raise SettingsError(f"sample {name} is not known; use one of {', '.join(SAMPLES)}")
    yaml = folder / "data.yaml"
    if yaml.is_file():
        return yaml, False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"dir={folder} is there already and is no sample data set; give an empty or a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as partial:
        whole = Path(partial) / folder.name
        SAMPLES[name](whole, folder)
        if folder.exists():
            folder.rmdir()  # empty, as checked above
        shutil.move(whole, folder)
    return yaml, True


def _aerial(folder: Path, final: Path) -> None:
    with opened(DEEPFOREST) as archive:
        for split, stem in AERIAL.items():
            _copy(archive, f"deepforest/data/{stem}.png", folder / "images" / split / f"{stem}.png")
            labels = yolo_lines(archive.read(f"deepforest/data/{stem}.xml").decode(), {"Tree": 0})
            target = folder / "labels" / split / f"{stem}.txt"
            target.parent.mkdir(parents=True)
            target.write_text("\n".join(labels) + "\n", encoding="utf-8")
        for name in ("LICENSE", "AUTHORS.md"):
            _copy(archive, f"deepforest-{DEEPFOREST.version}.dist-info/licenses/{name}", folder / name)
    (folder / "NOTE.txt").write_text(AERIAL_NOTE, encoding="utf-8")
    names = "names:\n  0: tree\n"
    (folder / "data.yaml").write_text(
        f"path: {final.resolve()}\ntrain: images/train\nval: images/val\n{names}", encoding="utf-8"
    )


def _copy(archive: zipfile.ZipFile, member: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out)


SAMPLES: dict[str, Callable[[Path, Path], None]] = {"aerial": _aerial}
