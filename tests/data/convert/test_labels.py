"""Label formats: each read back against what it was made of."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import tifffile
from PIL import Image

from tests.data.convert.conftest import Done, blobs, smooth
from yolo_ckpt.data.convert.labels import coco, dota, mask, rle, voc, yolo
from yolo_ckpt.data.convert.labels.recognise import yolo_classes
from yolo_ckpt.data.convert.problems import BrokenFileError

W, H = 200, 120
BOX = [20.0, 30.0, 50.0, 40.0]  # x, y, w, h
POLYGON = [30.0, 20, 90, 25, 80, 70, 60, 50, 35, 75]
TURNED = [100.0, 20, 150, 40, 140, 70, 90, 50]


def picture(path: Path, width: int = W, height: int = H) -> None:
    Image.fromarray(smooth(height, width)).save(path)


def compressed(runs: list[int]) -> str:
    """COCO's text of run lengths: maskApi.c, rleToString, written from its description."""
    text = ""
    for i, run in enumerate(runs):
        value = run - runs[i - 2] if i > 2 else run
        more = True
        while more:
            group, value = value & 0x1F, value >> 5
            more = value != -1 if group & 0x10 else value != 0
            text += chr((group | 0x20 if more else group) + 48)
    return text


def runs_of(inside: npt.NDArray[np.bool_]) -> list[int]:
    flat = inside.T.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    bounds = np.concatenate([[0], edges, [flat.size]])
    return ([0] if flat[0] else []) + np.diff(bounds).tolist()


def coco_document(annotations: list[dict[str, Any]], **image: Any) -> dict[str, Any]:
    return {
        "images": [{"id": 7, "file_name": "a.png", "width": W, "height": H, **image}],
        "categories": [{"id": 3, "name": "b"}, {"id": 1, "name": "a"}],
        "annotations": [{"id": i, "image_id": 7, "category_id": 3, **a} for i, a in enumerate(annotations)],
    }


def drawn(rows: list[list[float]], width: int = W, height: int = H) -> npt.NDArray[np.bool_]:
    from ultralytics.data.utils import polygon2mask

    found = np.zeros((height, width), bool)
    for row in rows:
        points = np.array(row[1:], np.float32).reshape(-1, 2) * np.array([width, height], np.float32)
        found |= polygon2mask((height, width), [points.ravel()]) > 0
    return found


@pytest.mark.parametrize("seed", range(5))
def test_run_lengths_round_trip(seed: int) -> None:
    inside = blobs(93, 71, 5, seed) > 0
    inside[0, 0] = seed % 2 == 0
    runs = runs_of(inside)
    assert (rle.decoded(runs, 71, 93) == inside).all()
    assert rle.uncompressed(compressed(runs)) == runs
    assert (rle.decoded(compressed(runs), 71, 93) == inside).all()


def test_compressed_run_lengths_worked_out_by_hand() -> None:
    """Rows 2 to 4 of columns 1 to 3 of a 9 x 5 mask: 11, 3, 6, then 3 - 3, 6 - 6, 3 - 3, 13 - 6; each plus 48."""
    inside = np.zeros((9, 5), bool)
    inside[2:5, 1:4] = True
    assert (rle.decoded(";360007", 5, 9) == inside).all()
    # 100 is 0b00011_00100: the lower group first, with the bit that says that another one follows. -2 is 0b11110.
    assert rle.uncompressed("T3003N") == [100, 0, 0, 3, -2]


@pytest.mark.parametrize("counts", [[5, 5], [100000, -1], "!!", "Z"])
def test_run_lengths_that_are_none(counts: Any) -> None:
    with pytest.raises(BrokenFileError):
        rle.decoded(counts, 10, 20)


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_coco(task: str, src: Path, convert: Any) -> None:
    inside = blobs(H, W, 1, 3) > 0
    runs = runs_of(inside)
    size = [H, W]
    rows, columns = np.nonzero(inside)
    box = [int(columns.min()), int(rows.min()), int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1]
    annotations = [
        {"bbox": BOX, "category_id": 1},
        {"bbox": [30, 20, 60, 55], "segmentation": [POLYGON]},
        {"bbox": box, "segmentation": {"size": size, "counts": runs}},
        {"bbox": box, "segmentation": {"size": size, "counts": compressed(runs)}, "category_id": 1},
        {"bbox": [0, 0, 50, 50], "segmentation": {"size": size, "counts": runs}, "iscrowd": 1},
        {"bbox": [5, 5, 0, 9]},
        {"bbox": [1, 2, 8, 8], "segmentation": [[1, 2, 9, 9]]},
    ]
    picture(src / "a.png")
    (src / "labels.json").write_text(json.dumps(coco_document(annotations)), encoding="utf-8")
    done: Done = convert(src, f"task={task}")
    assert done.status == 0, done.out
    found = done.rows("a")
    assert [row[0] for row in found] == [0, 1, 1, 0, 1]
    assert done.report["names"] == ["a", "b"]
    notes = done.report["notes"]
    assert notes["crowd regions left out"] == notes["objects without an area left out"] == 1
    assert notes["polygons with fewer than 3 points left out"] == 1
    if task == "detect":
        expected = [BOX, [30, 20, 60, 55], box, box, [1, 2, 8, 8]]
        centred = [[(x + w / 2) / W, (y + h / 2) / H, w / W, h / H] for x, y, w, h in expected]
        assert np.allclose([row[1:] for row in found], centred, atol=1e-6)
    elif task == "segment":
        assert np.allclose(found[1][1:], np.array(POLYGON) / np.tile([W, H], 5), atol=1e-6)
        assert (drawn([found[2]]) == inside).all()
        assert found[2][1:] == found[3][1:]
    else:
        assert {len(row) for row in found} == {9}


def test_coco_in_two_files_names_the_splits(src: Path, convert: Any) -> None:
    for split in ("train", "val"):
        picture(src / f"{split}1.png")
        document = coco_document([{"bbox": BOX}], file_name=f"somewhere/else/{split}1.png")
        (src / f"instances_{split}2017.json").write_text(json.dumps(document), encoding="utf-8")
    done: Done = convert(src)
    assert [p.stem for p in done.images("train")] == ["train1"]
    assert [p.stem for p in done.images("val")] == ["val1"]


def test_coco_for_another_size_fails_and_names_both(src: Path, convert: Any) -> None:
    picture(src / "a.png")
    picture(src / "b.png")
    document = coco_document([{"bbox": BOX}], width=400, height=240)
    document["images"].append({"id": 8, "file_name": "b.png"})
    document["images"].append({"id": 9, "file_name": "gone.png"})
    (src / "c.json").write_text(json.dumps(document), encoding="utf-8")
    done: Done = convert(src)
    assert done.failed == {"a.png": "its label is for 400 x 240 px, the image has 200 x 120 px"}
    assert "labels of images that are not there: 1" in done.report["lines"]
    assert done.report["labels_without_image"] == ["gone.png"]


VOC = """<annotation><size><width>{w}</width><height>{h}</height><depth>3</depth></size>
<object><name>boat</name><difficult>0</difficult><bndbox><xmin>20</xmin><ymin>30</ymin><xmax>70</xmax><ymax>70</ymax></bndbox>
</object><object><name>car</name><difficult>1</difficult><bndbox><xmin>-9</xmin><ymin>100</ymin><xmax>31</xmax><ymax>130</ymax>
</bndbox></object>{more}</annotation>"""


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_voc(task: str, src: Path, convert: Any) -> None:
    (src / "JPEGImages").mkdir()
    (src / "Annotations").mkdir()
    picture(src / "JPEGImages" / "a.jpg")
    (src / "Annotations" / "a.xml").write_text(VOC.format(w=W, h=H, more=""), encoding="utf-8")
    done: Done = convert(src, f"task={task}")
    assert done.report["names"] == ["boat", "car"]
    boat, car = done.rows("a")
    corners = {"detect": [45 / W, 50 / H, 50 / W, 40 / H]}.get(task, [20, 30, 70, 30, 70, 70, 20, 70])
    expected = corners if task == "detect" else np.array(corners) / np.tile([W, H], 4)
    assert np.allclose(boat[1:], expected, atol=1e-6)
    if task == "detect":
        assert np.allclose(car[1:], [15.5 / W, 110 / H, 31 / W, 20 / H], atol=1e-6)
    dropped: Done = convert(src, f"task={task}", "difficult=drop", dst="dropped")
    assert len(dropped.rows("a")) == 1


def test_turned_boxes_of_rolabelimg(tmp_path: Path) -> None:
    turn = math.radians(25)
    box = f"<cx>100</cx><cy>60</cy><w>50</w><h>20</h><angle>{turn}</angle>"
    more = f"<object><name>t</name><robndbox>{box}</robndbox></object>"
    (tmp_path / "a.xml").write_text(VOC.format(w=W, h=H, more=more), encoding="utf-8")
    ring = voc.annotation(tmp_path / "a.xml", drop_difficult=False).items[2].rings[0]
    expected = cv2.boxPoints(((100, 60), (50, 20), 25))
    assert np.abs(ring[:, None] - expected[None]).sum(-1).min(1).max() < 1e-3


DOTA = """imagesource:GoogleEarth
gsd:0.146343590398
{turned} plane 0
20 30 70 30 70 70 20 70 large-vehicle 1

20 30 70 70 70 30 20 70 large-vehicle 0
"""


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_dota(task: str, src: Path, convert: Any) -> None:
    for folder in ("images", "labelTxt"):
        (src / folder).mkdir()
    picture(src / "images" / "P0001.png")
    text = DOTA.format(turned=" ".join(map(str, TURNED)))
    (src / "labelTxt" / "P0001.txt").write_text(text, encoding="utf-8")
    done: Done = convert(src, f"task={task}")
    assert done.report["labels"] == "dota"
    assert done.report["names"] == ["large-vehicle", "plane"]
    turned, upright = done.rows("P0001")[:2]
    assert [turned[0], upright[0]] == [1, 0]
    if task == "detect":
        assert np.allclose(turned[1:], [120 / W, 45 / H, 60 / W, 50 / H], atol=1e-6)
    else:
        assert np.allclose(turned[1:], np.array(TURNED) / np.tile([W, H], 4), atol=1e-6)
    # The third is a bow tie of the second: the same corners in another order.
    assert len(done.rows("P0001")) == (2 if task == "detect" else 3)
    assert len(convert(src, f"task={task}", "difficult=drop", dst="dropped").rows("P0001")) == 2


@pytest.mark.parametrize("line", ["1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 x plane 0", "1 2 3 4 5 6 7 8 big plane 0"])
def test_dota_lines_that_are_none(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"gsd:1\n{line}\n", encoding="utf-8")
    with pytest.raises(BrokenFileError, match="line 2"):
        dota.annotation(tmp_path / "a.txt", drop_difficult=False)


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_instance_masks(name: str, src: Path, convert: Any) -> None:
    numbered = blobs(H, W, 9, 5)
    for folder in ("images", "masks"):
        (src / folder).mkdir()
    picture(src / "images" / "a.png")
    if name.endswith("png"):
        cv2.imwrite(str(src / "masks" / name), numbered)
    else:
        tifffile.imwrite(src / "masks" / name, numbered)
    done: Done = convert(src, "task=segment", "classes=nucleus")
    assert done.report["names"] == ["nucleus"]
    assert len(done.images()) == 1
    rows = done.rows("a")
    numbers = [n for n in np.unique(numbered) if n]
    assert len(rows) == len(numbers)
    overlaps = []
    for row, number in zip(rows, numbers, strict=True):
        found, inside = drawn([row]), numbered == number
        overlaps.append((found & inside).sum() / (found | inside).sum())
    assert min(overlaps) > 0.85  # parts that others cut off are joined by a line one pixel wide, holes are filled
    assert np.median(overlaps) == 1
    boxes = convert(src, "classes=nucleus", dst="boxes").rows("a")
    for row, number in zip(boxes, numbers, strict=True):
        ys, xs = np.nonzero(numbered == number)
        expected = [(xs.min() + xs.max() + 1) / 2 / W, (ys.min() + ys.max() + 1) / 2 / H, (np.ptp(xs) + 1) / W]
        assert np.allclose(row[1:4], expected, atol=1e-6)


def test_semantic_masks(src: Path, convert: Any) -> None:
    values = np.zeros((H, W), np.uint8)
    values[10:30, 10:30], values[50:90, 100:150], values[95:105, 20:25] = 1, 2, 1
    values[9, 9:31] = 255  # the border of Pascal VOC
    picture(src / "a.png")
    palette = Image.fromarray(values).convert("P")
    palette.putpalette([c for i in range(256) for c in ((i * 37) % 256, (i * 91) % 256, i)])
    Image.fromarray(values).save(src / "a_mask.png")
    refused: Done = convert(src, dst="refused")
    assert refused.status == 2
    assert "mask=instance" in refused.err
    done: Done = convert(src, "mask=semantic", "classes=scratch,dent")
    assert [row[0] for row in done.rows("a")] == [0, 0, 1]
    assert done.report["notes"]["masks whose value 255 was ignored"] == 1
    assert np.allclose(done.rows("a")[2][1:], [125 / W, 70 / H, 50 / W, 40 / H], atol=1e-6)
    unnamed: Done = convert(src, "mask=semantic", dst="unnamed")
    assert unnamed.report["names"] == ["class_1", "class_2"]


def test_a_palette_is_read_by_its_numbers_and_colours_by_theirs(tmp_path: Path) -> None:
    values = np.zeros((20, 30), np.uint8)
    values[5:10, 5:10], values[12:16, 20:25] = 1, 2
    indexed = Image.frombytes("P", (30, 20), values.tobytes())
    indexed.putpalette([0, 0, 0, 128, 0, 0, 0, 0, 255])
    indexed.save(tmp_path / "p.png")
    assert (mask.read(tmp_path / "p.png") == values).all()
    indexed.convert("RGB").save(tmp_path / "c.png")
    found = mask.annotation(tmp_path / "c.png", meaning="semantic", classes=())
    assert sorted(item.name for item in found.items) == ["#0000ff", "#800000"]


def test_binary_masks_are_one_class(src: Path, convert: Any) -> None:
    values = np.zeros((H, W), np.uint8)
    values[10:30, 10:30] = values[50:60, 60:90] = 255
    picture(src / "a.png")
    Image.fromarray(values).save(src / "a_mask.png")
    done: Done = convert(src)
    assert done.report["names"] == ["object"]
    assert len(done.rows("a")) == 2


def test_yolo_labels_come_back_as_they_were(src: Path, convert: Any) -> None:
    for folder in ("images/train", "images/val", "labels/train", "labels/val"):
        (src / folder).mkdir(parents=True)
    text = "1 0.3 0.4 0.2 0.3\n0 0.5 0.5 0.25 0.5\n"
    for split in ("train", "val"):
        picture(src / f"images/{split}/0.png")
        (src / f"labels/{split}/0.txt").write_text(text, encoding="utf-8")
    (src / "data.yaml").write_text("train: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n", encoding="utf-8")
    done: Done = convert(src)
    assert done.report["names"] == ["cat", "dog"]
    assert sorted(p.name for p in done.images()) == ["0.png", "0_2.png"]
    for split in ("train", "val"):
        (label,) = done.dst.glob(f"labels/{split}/*.txt")
        assert label.read_text(encoding="utf-8") == text
    picked: Done = convert(src, "classes=dog", dst="picked")
    assert picked.rows("0") == [[0, 0.3, 0.4, 0.2, 0.3]]
    assert "objects of classes that classes= does not name were left out: cat 2" in picked.report["lines"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("7 0.5 0.5 0.1 0.1", "has class 7; the data set has 2"),
        ("0 0.5 0.5 0.1", "has 4 numbers"),
        ("0 0.1 0.1 0.2 0.2", ""),
        ("0 0.5 0.5 0.1 0.1 0.2", "has 6 numbers"),
        ("cat 0.5 0.5 0.1 0.1", "numbers are expected"),
        ("0 50 50 10 10", "no fractions"),
        ("0.5 0.5 0.5 0.1 0.1", "has class 0.5"),
        ("0 nan 0.5 0.1 0.1", "no fractions"),
    ],
)
def test_yolo_lines_that_are_none(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"\n{text}\n", encoding="utf-8")
    if not says:
        assert len(yolo.annotation(tmp_path / "a.txt", (W, H), ("a", "b")).items) == 1
        return
    with pytest.raises(BrokenFileError, match=says):
        yolo.annotation(tmp_path / "a.txt", (W, H), ("a", "b"))


@pytest.mark.parametrize("orientation", range(2, 9))
def test_labels_of_a_stored_picture_turn_with_it(orientation: int, src: Path, convert: Any) -> None:
    """A bright square is labelled in the stored picture; the label has to lie on it in the upright one."""
    stored = np.zeros((60, 100, 3), np.uint8)
    stored[10:20, 70:95] = 255
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(stored).save(src / "a.png", exif=exif)
    document = coco_document([{"bbox": [70, 10, 25, 10]}], width=100, height=60)
    (src / "c.json").write_text(json.dumps(document), encoding="utf-8")
    done: Done = convert(src)
    if orientation < 5:
        assert done.rows("a")[0][1:] == [0.825, 0.25, 0.25, 1 / 6] or done.status == 0
        return  # both sizes are the same: the label is taken for one of the upright picture
    ys, xs = np.nonzero(done.image("a")[..., 0])
    height, width = done.image("a").shape[:2]
    expected = [(xs.min() + xs.max() + 1) / 2 / width, (ys.min() + ys.max() + 1) / 2 / height, 10 / width, 25 / height]
    assert np.allclose(done.rows("a")[0][1:], expected, atol=1e-6)


def test_broken_labels_fail_their_image_and_no_other(src: Path, convert: Any) -> None:
    for name in ("a", "b"):
        picture(src / f"{name}.png")
    (src / "a.xml").write_text("<annotation><object>", encoding="utf-8")
    (src / "b.xml").write_text(VOC.format(w=W, h=H, more=""), encoding="utf-8")
    done: Done = convert(src)
    assert done.status == 1
    assert "no XML" in done.failed["a.png"]
    assert [p.stem for p in done.images()] == ["b"]


def test_two_formats_have_to_be_chosen_from(src: Path, convert: Any) -> None:
    picture(src / "a.png")
    (src / "a.xml").write_text(VOC.format(w=W, h=H, more=""), encoding="utf-8")
    (src / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    refused: Done = convert(src)
    assert refused.status == 2
    assert "voc for 1 images and yolo for 1 images; choose with format_in=" in refused.err
    assert len(convert(src, "format_in=voc").rows("a")) == 2
    assert len(convert(src, "format_in=yolo", dst="yolo").rows("a")) == 1
    assert convert(src, "labels=none", dst="none").status == 0


def test_files_beside_that_are_no_labels(src: Path, convert: Any) -> None:
    """GDAL's notes, lists of files and classes are not labels of anything."""
    picture(src / "a.png")
    picture(src / "b.png")
    (src / "a.png.aux.xml").write_text("<PAMDataset><Metadata/></PAMDataset>", encoding="utf-8")
    (src / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    (src / "gone.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    (src / "b.txt").write_text("", encoding="utf-8")
    (src / "train.txt").write_text("./a.png\n./b.png\n", encoding="utf-8")
    (src / "classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    done: Done = convert(src)
    assert done.report["labels"] == "yolo"
    assert done.report["names"] == ["cat", "dog"]
    assert done.report["labels_without_image"] == ["gone.txt"]
    assert done.rows("b") == []


@pytest.mark.parametrize("where", ["", "masks"])
def test_the_folder_of_the_labels_may_be_in_that_of_the_images(where: str, src: Path, convert: Any) -> None:
    (src / "masks").mkdir()
    picture(src / "a.png")
    cv2.imwrite(str(src / "masks" / "a.png"), blobs(H, W, 3))
    done: Done = convert(src, f"labels={src / where}")
    assert done.report["labels"] == "mask"
    assert [r["source"] for r in done.report["files"]] == ["a.png"]
    assert len(done.rows("a")) == 3


def test_labels_of_the_nearest_folder(src: Path, convert: Any) -> None:
    for place, x in (("one", 0.25), ("two", 0.75)):
        (src / place).mkdir()
        picture(src / place / "0.png")
        (src / place / "0.txt").write_text(f"0 {x} 0.5 0.1 0.1\n", encoding="utf-8")
    done: Done = convert(src)
    by_name = {r["source"]: Path(r["images"][0]).stem for r in done.report["files"]}
    assert done.rows(by_name["one/0.png"])[0][1] == 0.25
    assert done.rows(by_name["two/0.png"])[0][1] == 0.75


def test_the_nearest_of_two_images_gets_the_label(src: Path, convert: Any) -> None:
    for place in ("images/train", "images/val", "labels/train"):
        (src / place).mkdir(parents=True)
    picture(src / "images/train/0.png")
    picture(src / "images/val/0.png")
    (src / "labels/train/0.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    done: Done = convert(src)
    assert done.status == 0
    assert len(list(done.dst.glob("labels/train/*.txt"))) == 1
    assert not list(done.dst.glob("labels/val/*.txt"))
    assert "images without a label, which train as background: 1" in done.report["lines"]


def test_a_label_that_fits_two_images_fits_none(src: Path, convert: Any, tmp_path: Path) -> None:
    labels = tmp_path / "elsewhere"
    labels.mkdir()
    for place in ("one", "two"):
        (src / place).mkdir()
        picture(src / place / "0.png")
    picture(src / "1.png")
    for stem in ("0", "1"):
        (labels / f"{stem}.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    done: Done = convert(src, f"labels={labels}")
    assert set(done.failed) == {"one/0.png", "two/0.png"}
    assert [p.stem for p in done.images()] == ["1"]


def test_category_without_a_name(tmp_path: Path) -> None:
    entry = coco.Entry(
        file_name="a", source="c", size=(W, H), annotations=[{"category_id": 9, "bbox": BOX}], names={1: "a"}
    )
    with pytest.raises(BrokenFileError, match="category_id 9"):
        coco.annotation(entry, (W, H))


def test_rows_with_keypoints_give_their_boxes(src: Path, convert: Any) -> None:
    """`kpt_shape` in the data set's YAML tells them from outlines."""
    picture(src / "a.png")
    (src / "a.txt").write_text("0 0.5 0.5 0.2 0.2 0.1 0.1 0.2 0.1 0.3 0.3 0.1 0.4\n", encoding="utf-8")
    (src / "data.yaml").write_text("names: [cow]\nkpt_shape: [4, 2]\n", encoding="utf-8")
    done: Done = convert(src)
    assert done.rows("a") == [[0, 0.5, 0.5, 0.2, 0.2]]
    assert done.report["notes"]["keypoints left out"] == 1


def test_the_yaml_beside_the_folders_names_the_classes(tmp_path: Path, convert: Any) -> None:
    for folder in ("set/images", "set/labels"):
        (tmp_path / folder).mkdir(parents=True)
    picture(tmp_path / "set/images/a.png")
    (tmp_path / "set/labels/a.txt").write_text("1 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    (tmp_path / "set/a.yaml").write_text("names: [no, data, set]\n", encoding="utf-8")
    (tmp_path / "set/data.yaml").write_text("train: images\nnames: [cat, dog]\n", encoding="utf-8")
    done: Done = convert(tmp_path / "set/images", f"labels={tmp_path / 'set/labels'}")
    assert done.report["objects"] == {"dog": 1}


def test_a_folder_beside_that_cannot_be_listed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert yolo_classes([], [tmp_path]).names == ()


def test_class_names_that_are_not_utf8(src: Path, convert: Any) -> None:
    picture(src / "a.png")
    (src / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    (src / "classes.txt").write_bytes("Tür\n".encode("latin-1"))
    done: Done = convert(src)
    assert (done.status, done.out) == (2, "")
    assert "classes.txt cannot be read as UTF-8" in done.err


def test_deep_masks_of_one_value_are_binary(src: Path, convert: Any) -> None:
    """As ImageJ writes them; an instance mask of an image without objects says nothing."""
    for name in ("a", "b"):
        picture(src / f"{name}.png")
    values = np.zeros((H, W), np.uint16)
    cv2.imwrite(str(src / "a_mask.png"), values)
    for x in (20, 80, 140):
        values[30:50, x : x + 20] = 65535
    cv2.imwrite(str(src / "b_mask.png"), values)
    assert len(convert(src).rows("b")) == 3


def test_masks_of_odd_shapes(src: Path, convert: Any) -> None:
    """Transparency is left out; several pages are one image's failure."""
    values = np.zeros((H, W), np.uint8)
    values[10:30, 10:30] = 1
    for name in ("a", "b", "c"):
        picture(src / f"{name}.png")
    Image.fromarray(np.stack([values, np.full_like(values, 255)], -1), "LA").save(src / "a_mask.png")
    tifffile.imwrite(src / "b_mask.tif", np.zeros((2, H, W, 3), np.uint8), photometric="rgb")
    cv2.imwrite(str(src / "c_mask.png"), values)
    done: Done = convert(src)
    assert len(done.rows("a")) == len(done.rows("c")) == 1
    assert list(done.failed) == ["b.png"]
    assert "its mask has the shape" in done.failed["b.png"]


def test_annotations_of_no_image_are_counted(src: Path, convert: Any) -> None:
    picture(src / "a.png")
    document = coco_document([{"bbox": BOX}, {"bbox": BOX, "image_id": "7"}])
    (src / "coco.json").write_text(json.dumps(document), encoding="utf-8")
    assert "annotations with an image_id that no image has: 1" in convert(src).report["lines"]


def test_other_json_beside_labels(src: Path, convert: Any, tmp_path: Path) -> None:
    picture(src / "a.png")
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    (labels / "notes.json").write_text('{"by": "me"}', encoding="utf-8")
    assert convert(src, f"labels={labels}").report["labels"] == "yolo"
    done: Done = convert(src, f"labels={labels}", "format_in=coco", dst="coco")
    assert done.status == 2
    assert "notes.json is no COCO file" in done.err


def test_a_label_in_another_split_is_none(src: Path, convert: Any) -> None:
    for place in ("images/train", "images/val", "labels/train"):
        (src / place).mkdir(parents=True)
    picture(src / "images/train/1.png")
    picture(src / "images/val/7.png")
    for name in ("1", "7"):
        (src / f"labels/train/{name}.txt").write_text("0 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    done: Done = convert(src)
    assert not list(done.dst.glob("labels/val/*.txt"))
    assert "labels of images that are not there: 1" in done.report["lines"]


def test_images_that_classes_leaves_without_an_object(src: Path, convert: Any) -> None:
    for name, number in (("a", 0), ("b", 1), ("c", 1)):
        picture(src / f"{name}.png")
        (src / f"{name}.txt").write_text(f"{number} 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    (src / "classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    assert (
        "images that show no object, which train as background: 2 of 3" in convert(src, "classes=cat").report["lines"]
    )


def test_masks_that_fit_two_images_are_no_pictures(src: Path, convert: Any) -> None:
    for folder in ("images", "previews", "masks"):
        (src / folder).mkdir()
    picture(src / "images/a.png")
    picture(src / "previews/a.png")
    picture(src / "images/b.png")
    for name in ("a", "b"):
        cv2.imwrite(str(src / f"masks/{name}.png"), (np.indices((H, W)).sum(0) % 60 < 20).astype(np.uint8))
    done: Done = convert(src)
    assert done.status == 1
    assert done.failed == dict.fromkeys(("images/a.png", "previews/a.png"), "its label fits 2 images as well")
    assert [path.stem for path in done.images()] == ["b"]


def test_file_names_of_windows(src: Path, convert: Any) -> None:
    for folder in ("one", "two"):
        (src / folder).mkdir()
        picture(src / folder / "a.png")
    document = coco_document([{"bbox": BOX}], file_name="C:\\data\\two\\a.png")
    (src / "coco.json").write_text(json.dumps(document), encoding="utf-8")
    done: Done = convert(src)
    by_name = {r["source"]: r.get("objects") for r in done.report["files"]}
    assert by_name == {"one/a.png": None, "two/a.png": {"b": 1}}


@pytest.mark.parametrize("name", ["coco", "voc", "dota", "yolo"])
def test_labels_of_other_names_are_an_error(name: str, src: Path, convert: Any) -> None:
    picture(src / "mine.png")
    document = coco_document([{"bbox": BOX}])
    texts = {
        "coco": ("all.json", json.dumps(document)),
        "voc": ("a.xml", "<annotation><object><name>b</name></object></annotation>"),
        "dota": ("a.txt", "1 1 9 1 9 9 1 9 plane 0\n"),
        "yolo": ("a.txt", "0 0.5 0.5 0.2 0.2\n"),
    }
    file, text = texts[name]
    (src / file).write_text(text, encoding="utf-8")
    (src / "track.txt").write_text("1 2 3 4 5\n", encoding="utf-8")  # no label
    done: Done = convert(src)
    assert (done.status, done.out) == (2, "")
    assert f"1 {name} label under src=" in done.err
    assert convert(src, "labels=none").status == 0
    assert convert(src / "mine.png", dst="one").status == 0  # labels beside a single file are those of others


def test_masks_of_jpeg(src: Path, convert: Any) -> None:
    """Black and white ones are read; others have lost their values."""
    values = np.zeros((H, W), np.uint8)
    values[20:60, 30:90], values[70:100, 120:160] = 255, 255
    for name in ("a", "b"):
        picture(src / f"{name}.png")
    cv2.imwrite(str(src / "a_mask.jpg"), values, [cv2.IMWRITE_JPEG_QUALITY, 80])
    cv2.imwrite(str(src / "b_mask.jpg"), (values > 0) * np.linspace(20, 200, W).astype(np.uint8))
    done: Done = convert(src)
    assert np.allclose(done.rows("a")[0][1:], [60 / W, 40 / H, 60 / W, 40 / H], atol=0.01)
    assert len(done.rows("a")) == 2
    assert "a JPEG of several values" in done.failed["b.png"]


def test_splits_of_pascal_voc(src: Path, convert: Any) -> None:
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (src / folder).mkdir(parents=True)
    for name in "abc":
        picture(src / f"JPEGImages/{name}.png")
        (src / f"Annotations/{name}.xml").write_text("<annotation/>", encoding="utf-8")
    (src / "ImageSets/Main/train.txt").write_text("a\nc 1\n", encoding="utf-8")
    (src / "ImageSets/Main/val.txt").write_text("b\n", encoding="utf-8")
    done: Done = convert(src)
    assert {s: [p.stem for p in done.images(s)] for s in ("train", "val")} == {"train": ["a", "c"], "val": ["b"]}


def test_values_of_semantic_masks_have_names(src: Path, convert: Any) -> None:
    values = np.zeros((H, W), np.uint8)
    values[10:30, 10:30], values[50:90, 100:150], values[95:105, 20:25] = 100, 200, 7
    picture(src / "a.png")
    cv2.imwrite(str(src / "a_mask.png"), values)
    refused: Done = convert(src, "mask=semantic", "classes=liver,lesion", dst="refused")
    assert "classes=7:NAME" in "".join(refused.out.split())
    done: Done = convert(src, "mask=semantic", "classes=200:lesion,100:liver")
    assert done.report["names"] == ["lesion", "liver"]
    assert done.report["objects"] == {"lesion": 1, "liver": 1}
    assert "objects of classes that classes= does not name were left out: class_7 1" in done.report["lines"]


def test_a_class_that_is_misspelt(src: Path, convert: Any) -> None:
    picture(src / "a.png")
    (src / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.1 0.1\n", encoding="utf-8")
    (src / "classes.txt").write_text("crack\npore\n", encoding="utf-8")
    lines = convert(src, "classes=crack,por", "mask=instance").report["lines"]
    assert "objects of classes that classes= does not name were left out: pore 1" in lines
    assert "no object is of class por; did you mean pore?" in lines
    assert "mask=instance had no effect: the labels are yolo" in lines
