"""The industrial sample: made pictures of circuit boards and of rolled metal, with their faults.

No real set of that kind ships in a package with a licence that would allow it here. So both are made from seeds, by the
code in `made/`, and the notes in the data set say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from yolo_ckpt.data.samples.files import Image, Sample, label_line, write_image, write_labels, write_yaml
from yolo_ckpt.data.samples.made import boards, faults, strips
from yolo_ckpt.data.samples.made.texture import Random

JPEG_QUALITY = 95
BOARDS = {"train": (1, 2, 3), "val": (4,)}  # seeds, one for each picture
STRIPS = {"train": (1, 2, 4, 12, 14, 17), "val": (19, 20)}
NOTE = """\
Made data. Every picture here was drawn from a seed by a program (yolo_ckpt/data/samples/made); none shows a real
product.

boards/: circuit boards before assembly, 3000 x 2200 pixels, colour, JPEG. Each has about three faults of each of six
kinds, with boxes of 13 to 52 pixels. The names of the kinds and their order are those of PKU-Market-PCB.
strips/: rolled metal under a line-scan camera, 4096 x 256 pixels, grey, PNG. Faults: scratches (up to 1,900 pixels long
and two wide), and pits of 6 to 30 pixels. The dark lines from top to bottom are no faults: they are dirty pixels of the
sensor, which every line of the picture has at the same place.

What is like the real thing: sizes, uneven light, sensor noise, surface texture, how small the faults are. What is
not: there are few kinds of faults, parts and surfaces, and all boards are of one style. A model trained on this knows
nothing about real boards or metal; it is here to try a training at full size with.
"""

Picture = Callable[[Random], tuple[Image, list[tuple[int, tuple[int, int, int, int]]]]]


def _write(folder: Path, final: Path) -> None:
    _data_set(folder / "boards", final / "boards", boards.board, BOARDS, faults.NAMES, ".jpg")
    _data_set(folder / "strips", final / "strips", strips.strip, STRIPS, strips.NAMES, ".png")
    (folder / "NOTE.txt").write_text(NOTE, encoding="utf-8")


def _data_set(
    folder: Path,
    final: Path,
    picture: Picture,
    seeds: Mapping[str, tuple[int, ...]],
    names: Mapping[int, str],
    suffix: str,
) -> None:
    import cv2

    for split, numbers in seeds.items():
        for number in numbers:
            image, found = picture(Random(number))
            name = f"{folder.name}-{number}"
            quality = (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY) if suffix == ".jpg" else ()
            write_image(folder / "images" / split / f"{name}{suffix}", image, *quality)
            height, width = image.shape[:2]
            lines = [label_line(kind, box, width, height) for kind, box in found]
            write_labels(folder / "labels" / split / f"{name}.txt", lines)
    write_yaml(folder / "data.yaml", final, names)


SAMPLE = Sample(write=_write, yamls=("boards/data.yaml", "strips/data.yaml"))
