"""What stands in datasets/: YAML files that the host reads, a section of the README for each, labels as COCO."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from yolo_ckpt.data.samples.made import faults, strips

ROOT = Path(__file__).parents[2]
YAMLS = sorted((ROOT / "datasets").glob("*.yaml"))
README = (ROOT / "datasets" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def to_coco() -> ModuleType:
    spec = importlib.util.spec_from_file_location("to_coco", ROOT / "datasets" / "to_coco.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["to_coco"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", YAMLS, ids=lambda p: p.stem)
def test_a_yaml_file_and_its_section(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    assert list(data["names"]) == list(range(len(data["names"])))
    assert len(set(data["names"].values())) == len(data["names"])
    assert {"path", "train", "val"} <= set(data)
    (section,) = re.findall(rf"^## .*\(`{file.name}`\)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    for word in ("licence", "images", "classes", "config"):
        assert word in section.lower(), word
    for config in re.findall(r"configs/[\w-]+\.yaml", text + section):
        assert (ROOT / config).is_file(), config


def test_made_sets_are_named_as_they_are_written() -> None:
    for name, names in (("boards", faults.NAMES), ("strips", strips.NAMES), ("pku-market-pcb", faults.NAMES)):
        assert yaml.safe_load((ROOT / "datasets" / f"{name}.yaml").read_text(encoding="utf-8"))["names"] == names


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_visdrone(to_coco: ModuleType, tmp_path: Path) -> None:
    """Ignored regions, others and what has the score 0 are no objects; an image without objects is an image."""
    written(tmp_path, "a.txt", "10,20,30,40,1,1,0,0\n1,2,3,4,0,0,0,0\n5,5,5,5,1,11,0,0\n7,8,9,10,1,10,0,1,\n")
    written(tmp_path, "b.txt", "")
    found = to_coco.coco("visdrone", tmp_path)
    assert [i["file_name"] for i in found["images"]] == ["a.jpg", "b.jpg"]
    assert [(a["category_id"], a["bbox"]) for a in found["annotations"]] == [(1, [10, 20, 30, 40]), (10, [7, 8, 9, 10])]
    assert found["categories"][9] == {"id": 10, "name": "motor"}


def test_xview(to_coco: ModuleType, tmp_path: Path) -> None:
    said = {"image_id": "1.tif", "bounds_imcoords": "10,20,15,40"}
    features = [{"properties": {**said, "type_id": kind}} for kind in (11, 94, 75)]  # there is no class 75
    found = to_coco.coco("xview", written(tmp_path, "x.geojson", json.dumps({"features": features})))
    assert [a["category_id"] for a in found["annotations"]] == [1, 60]
    assert all(a["bbox"] == [10, 20, 5, 20] for a in found["annotations"])


@pytest.mark.parametrize(
    "head", ["ImageId,ClassId,EncodedPixels\na.jpg,3,{}\n", "ImageId_ClassId,EncodedPixels\na.jpg_1,\na.jpg_3,{}\n"]
)
def test_severstal(head: str, to_coco: ModuleType, tmp_path: Path) -> None:
    """Run lengths go down the columns, as COCO's do, but are counted from 1."""
    mask = np.zeros((256, 1600), bool)
    mask[10:14, 0], mask[3:9, 5] = True, True
    found = to_coco.coco("severstal", written(tmp_path, "train.csv", head.format(f"11 4 {5 * 256 + 4} 6")))
    (said,) = found["annotations"]
    assert said["category_id"] == 3
    counts = said["segmentation"]["counts"]
    values = np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(1600, 256).T
    assert (values == mask).all()
    assert len(found["images"]) == 1


def test_vindr(to_coco: ModuleType, tmp_path: Path) -> None:
    head = "image_id,rad_id,class_name,x_min,y_min,x_max,y_max\n"
    rows = "a,R1,Cardiomegaly,10.5,20,110.5,220\nb,R1,No finding,,,,\n"
    found = to_coco.coco("vindr", written(tmp_path, "train.csv", head + rows))
    assert [i["file_name"] for i in found["images"]] == ["a.dicom", "b.dicom"]
    assert [(a["category_id"], a["bbox"]) for a in found["annotations"]] == [(4, [10.5, 20, 100, 200])]


def test_dentex_on_the_shell(tmp_path: Path) -> None:
    """The third number is the diagnosis; the file's own numbers of classes may be others than the YAML's."""
    document = {
        "images": [{"id": 7, "file_name": "t.png"}],
        "categories_3": [{"id": 5, "name": "Deep Caries"}],
        "annotations": [{"image_id": 7, "category_id_1": 0, "category_id_3": 5, "bbox": [1, 2, 3, 4]}],
    }
    source = written(tmp_path, "d.json", json.dumps(document))
    command = [sys.executable, ROOT / "datasets" / "to_coco.py", "dentex", source, tmp_path / "out.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 objects in 1 images" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [(a["category_id"], a["bbox"]) for a in found["annotations"]] == [(4, [1, 2, 3, 4])]


def test_a_wrong_request_on_the_shell() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "datasets" / "to_coco.py", "mars"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
