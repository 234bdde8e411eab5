"""Labels of public sets in formats of their own, as COCO JSON, which `yolo-ckpt convert` reads.

    python datasets/to_coco.py visdrone  VisDrone2019-DET-train/annotations  visdrone-train.json
    python datasets/to_coco.py xview     xView_train.geojson                 xview.json
    python datasets/to_coco.py severstal severstal/train.csv                 severstal.json
    python datasets/to_coco.py vindr     vindr-cxr/annotations_train.csv     vindr.json
    python datasets/to_coco.py dentex    train_quadrant_enumeration_disease.json  dentex.json

Written from descriptions of the formats and tested on made files of that form, not on the sets themselves. Prints how
many objects of how many images were written.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SEVERSTAL_SIZE = (256, 1600)  # height and width
# The numbers that xView gives its 60 classes, in the order of their names in xview.yaml.
XVIEW_IDS = (
    11, 12, 13, 15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 36, 37, 38, 40, 41, 42, 44, 45, 47,
    49, 50, 51, 52, 53, 54, 55, 56, 57, 59, 60, 61, 62, 63, 64, 65, 66, 71, 72, 73, 74, 76, 77, 79, 83, 84, 86, 89, 91,
    93, 94,
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One object: its image, class, and COCO's `bbox` or `segmentation`; without a class, an image without objects."""

    image: str
    name: str = ""
    shape: dict[str, Any] | None = None


def names_of(data_set: str) -> list[str]:
    """Class names in the order of the YAML file beside this script."""
    return list(yaml.safe_load((HERE / f"{data_set}.yaml").read_text(encoding="utf-8"))["names"].values())


def visdrone(source: Path) -> Iterator[Row]:
    """A folder of text files: x, y, width, height, score, category, truncation, occlusion. Categories 1 to 10 are
    objects; 0 are regions to ignore and 11 are other things, both are left out, as is what has the score 0."""
    names = names_of("visdrone")
    for file in sorted(source.glob("*.txt")):
        image = f"{file.stem}.jpg"
        yield Row(image)
        for line in file.read_text(encoding="utf-8").split():
            x, y, width, height, score, category = (int(number) for number in line.split(",")[:6])
            if score and 1 <= category <= len(names):
                yield Row(image, names[category - 1], {"bbox": [x, y, width, height]})


def xview(source: Path) -> Iterator[Row]:
    """GeoJSON with `image_id`, `type_id` and `bounds_imcoords` (x0, y0, x1, y1 in pixels)."""
    names = dict(zip(XVIEW_IDS, names_of("xview"), strict=True))
    for feature in json.loads(source.read_text(encoding="utf-8"))["features"]:
        said = feature["properties"]
        yield Row(said["image_id"])
        x0, y0, x1, y1 = (float(number) for number in said["bounds_imcoords"].split(","))
        if int(said["type_id"]) in names:  # a few objects have numbers of no class
            yield Row(said["image_id"], names[int(said["type_id"])], {"bbox": [x0, y0, x1 - x0, y1 - y0]})


def severstal(source: Path) -> Iterator[Row]:
    """CSV with run lengths: pairs of a first pixel, counted from 1 down the columns, and a number of pixels. The class
    is a column of its own, or stands behind the image's name."""
    names, (height, width) = names_of("severstal"), SEVERSTAL_SIZE
    for line in _lines(source):
        image, _, behind = line.get("ImageId_ClassId", "").rpartition("_")
        image, number = line.get("ImageId", image), line.get("ClassId", behind)
        yield Row(image)
        if line["EncodedPixels"]:
            counts = _counts([int(word) for word in line["EncodedPixels"].split()], height * width)
            yield Row(image, names[int(number) - 1], {"segmentation": {"counts": counts, "size": [height, width]}})


def _counts(pairs: list[int], total: int) -> list[int]:
    """COCO's run lengths, which alternate between outside and inside, from first pixels and lengths."""
    counts, at = [], 0
    for first, length in zip(pairs[::2], pairs[1::2], strict=True):
        counts += [first - 1 - at, length]
        at = first - 1 + length
    return [*counts, total - at]


def vindr(source: Path) -> Iterator[Row]:
    """CSV with a line for each box of each radiologist; `No finding` is no object. Three radiologists looked at each
    training image, and their boxes are all kept: merge them before, or train on all."""
    names = set(names_of("vindr-cxr"))
    for line in _lines(source):
        image = f"{line['image_id']}.dicom"
        yield Row(image)
        if line["class_name"] in names:
            x0, y0, x1, y1 = (float(line[key]) for key in ("x_min", "y_min", "x_max", "y_max"))
            yield Row(image, line["class_name"], {"bbox": [x0, y0, x1 - x0, y1 - y0]})


def dentex(source: Path) -> Iterator[Row]:
    """COCO with three numbers for each object; the third is the diagnosis."""
    document = json.loads(source.read_text(encoding="utf-8"))
    images = {image["id"]: image["file_name"] for image in document["images"]}
    names = {category["id"]: category["name"] for category in document["categories_3"]}
    yield from (Row(image) for image in images.values())
    for said in document["annotations"]:
        shape = {key: said[key] for key in ("bbox", "segmentation") if key in said}
        yield Row(images[said["image_id"]], names[said["category_id_3"]], shape)


def _lines(source: Path) -> Iterator[dict[str, str]]:
    with source.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)


FORMATS: dict[str, tuple[Callable[[Path], Iterator[Row]], str]] = {
    "visdrone": (visdrone, "visdrone"), "xview": (xview, "xview"), "severstal": (severstal, "severstal"),
    "vindr": (vindr, "vindr-cxr"), "dentex": (dentex, "dentex"),
}  # fmt: skip


def coco(name: str, source: Path) -> dict[str, Any]:
    """The labels of a set as a COCO document; its categories are numbered as in the set's YAML file, from 1."""
    rows, data_set = FORMATS[name]
    categories = {label: number for number, label in enumerate(names_of(data_set), 1)}
    images: dict[str, int] = {}
    objects = []
    for row in rows(source):
        number = images.setdefault(row.image, len(images) + 1)
        if row.shape is not None:
            said = {"id": len(objects) + 1, "image_id": number, "category_id": categories[row.name], "iscrowd": 0}
            objects.append(said | row.shape)
    return {
        "images": [{"id": number, "file_name": image} for image, number in images.items()],
        "annotations": objects,
        "categories": [{"id": number, "name": label} for label, number in categories.items()],
    }


def main() -> None:
    """Convert what the arguments name."""
    if len(sys.argv) != 4 or sys.argv[1] not in FORMATS:
        sys.exit(f"give a set ({', '.join(FORMATS)}), its labels, and the JSON file to write; see {__file__}")
    name, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    document = coco(name, source)
    target.write_text(json.dumps(document), encoding="utf-8")
    print(f"{target}: {len(document['annotations'])} objects in {len(document['images'])} images")


if __name__ == "__main__":
    main()
