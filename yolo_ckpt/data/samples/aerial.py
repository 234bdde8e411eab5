"""The aerial sample: real photographs with labelled trees, out of the DeepForest wheel."""

from __future__ import annotations

from pathlib import Path

from yolo_ckpt.data.samples.files import Sample, copy_member, write_labels, write_yaml
from yolo_ckpt.data.voc import yolo_lines
from yolo_ckpt.data.wheels import Wheel, opened

DEEPFOREST = Wheel(
    name="deepforest",
    version="2.1.0",
    sha256="8c2798d8e9be7f0004b194fe207b76c1d9fff6e711b3db67b9508dcd5d00ae54",
)
IMAGES = {
    "train": "2019_YELL_2_528000_4978000_image_crop2",
    "val": "2019_YELL_2_541000_4977000_image_crop",
}
NOTE = """\
Aerial photographs of tree crowns, Yellowstone (NEON site YELL), 2019, with their bounding boxes.

Taken unchanged out of the DeepForest 2.1.0 wheel, which its authors (Ben Weinstein, Henry Senyondo, Ethan White and
others, see AUTHORS.md) publish under the MIT licence that stands beside this file. The photographs come from the
National Ecological Observatory Network (NEON). The labels were converted from Pascal VOC to YOLO.
"""


def _write(folder: Path, final: Path) -> None:
    with opened(DEEPFOREST) as archive:
        for split, stem in IMAGES.items():
            copy_member(archive, f"deepforest/data/{stem}.png", folder / "images" / split / f"{stem}.png")
            labels = yolo_lines(archive.read(f"deepforest/data/{stem}.xml").decode(), {"Tree": 0})
            write_labels(folder / "labels" / split / f"{stem}.txt", labels)
        for name in ("LICENSE", "AUTHORS.md"):
            copy_member(archive, f"deepforest-{DEEPFOREST.version}.dist-info/licenses/{name}", folder / name)
    (folder / "NOTE.txt").write_text(NOTE, encoding="utf-8")
    write_yaml(folder / "data.yaml", final, {0: "tree"})


SAMPLE = Sample(write=_write)
