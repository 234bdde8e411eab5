"""The aerial sample: real photographs with labelled trees, out of the DeepForest wheel."""

from __future__ import annotations

from pathlib import Path

from yolo_ckpt.data.convert.geometry import overlap
from yolo_ckpt.data.convert.labels import voc
from yolo_ckpt.data.samples.files import Sample, copy_member, label_line, write_labels, write_yaml
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
            labels = label_lines(archive.read(f"deepforest/data/{stem}.xml"))
            write_labels(folder / "labels" / split / f"{stem}.txt", labels)
        for name in ("LICENSE", "AUTHORS.md"):
            copy_member(archive, f"deepforest-{DEEPFOREST.version}.dist-info/licenses/{name}", folder / name)
    (folder / "NOTE.txt").write_text(NOTE, encoding="utf-8")
    write_yaml(folder / "data.yaml", final, {0: "tree"})


def label_lines(xml: bytes) -> list[str]:
    """Label lines of the boxes in a Pascal VOC document, clipped to its image; what lies outside is left out."""
    found = voc.parsed(xml, drop_difficult=False)
    assert found.size is not None
    width, height = found.size
    boxes = [overlap(item.box, (0, 0, width, height)) for item in found.items if item.box is not None]
    return [label_line(0, box, width, height) for box in boxes if box is not None]


SAMPLE = Sample(write=_write)
