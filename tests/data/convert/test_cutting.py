"""Tiles and the labels on them, against pictures that are cut and counted."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from scipy import ndimage

from tests.data.convert.conftest import Done, blobs
from yolo_ckpt.data.convert.geometry import corners
from yolo_ckpt.data.convert.labels.items import Item
from yolo_ckpt.data.convert.rows import cut_row, wholes
from yolo_ckpt.data.convert.tiles import tiles


@pytest.mark.parametrize(
    ("width", "height", "tile", "overlap"),
    [
        (1000, 700, 256, 0.2),
        (256, 256, 256, 0.2),
        (257, 100, 256, 0.5),
        (5000, 130, 512, 0.0),
        (33000, 33000, 1024, 0.2),
    ],
)
def test_tiles_cover_everything_and_overlap(width: int, height: int, tile: int, overlap: float) -> None:
    found = tiles(width, height, tile, overlap)
    for low, high, side in ((0, 2, width), (1, 3, height)):
        spans = sorted({(t[low], t[high]) for t in found})
        assert spans[0][0] == 0
        assert spans[-1][1] == side
        assert all(b - a == min(tile, side) for a, b in spans)
        assert all(after[0] <= before[1] - overlap * tile for before, after in pairwise(spans))
        assert len(spans) <= side / (tile * (1 - overlap)) + 2


def test_fewer_tiles_would_not_do() -> None:
    assert len(tiles(1843, 1024, 1024, 0.2)) == 2  # 205 px are a fifth of 1024, to the next pixel
    assert len(tiles(1844, 1024, 1024, 0.2)) == 3


@cache
def objects() -> npt.NDArray[np.uint16]:
    """Numbered objects in one connected part each, without holes: what an outline can say."""
    numbered = blobs(500, 700, 40, 11)
    for number in range(1, 41):
        parts, _ = ndimage.label(numbered == number)
        if parts.max():
            numbered[(parts > 0) & (parts != np.bincount(parts.ravel())[1:].argmax() + 1)] = 0
            numbered[ndimage.binary_fill_holes(numbered == number)] = number
    return numbered


@pytest.fixture
def marked(src: Path) -> npt.NDArray[np.uint16]:
    """A picture in `src` whose pixels say which object they belong to, with its mask."""
    numbered = objects()
    for folder in ("images", "masks"):
        (src / folder).mkdir()
    Image.fromarray(np.stack([numbered.astype(np.uint8) * 6] * 3, -1)).save(src / "images" / "a.png")
    cv2.imwrite(str(src / "masks" / "a.png"), numbered)
    return numbered


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_labels_lie_on_what_is_in_the_tile(task: str, src: Path, marked: npt.NDArray[np.uint16], convert: Any) -> None:
    from ultralytics.data.utils import polygon2mask

    done: Done = convert(src, f"task={task}", "tile=200", "overlap=0.25", "min_visible=0.4")
    places = tiles(700, 500, 200, 0.25)
    assert len(done.images()) == len(places) == 5 * 3
    kept = set()
    for x0, y0, x1, y1 in places:
        stem = f"a__y{y0:05d}_x{x0:05d}"
        part = marked[y0:y1, x0:x1]
        assert (done.image(stem)[..., 0] == part.astype(np.uint8) * 6).all()
        shares = {int(n): (part == n).sum() / (marked == n).sum() for n in np.unique(part[part > 0])}
        assert all(abs(share - 0.4) > 0.01 for share in shares.values())  # or this picture tells nothing
        expected = {number: part == number for number, share in shares.items() if share >= 0.4}
        for row, (number, inside) in zip(done.rows(stem), expected.items(), strict=True):
            kept.add(number)
            ys, xs = np.nonzero(inside)
            if task == "detect":
                box = [(xs.min() + xs.max() + 1) / 400, (ys.min() + ys.max() + 1) / 400, (np.ptp(xs) + 1) / 200]
                assert np.allclose(row[1:4], box, atol=0.06 / 200)
                continue
            points = np.array(row[1:], np.float32).reshape(-1, 2) * 200
            drawn = polygon2mask((200, 200), [points.ravel()]) > 0
            if task == "segment":
                assert (drawn & inside).sum() / (drawn | inside).sum() > 0.93
            else:
                assert len(points) == 4
                assert (drawn & inside).sum() >= 0.93 * inside.sum()
                smallest = cv2.minAreaRect(np.argwhere(inside)[:, ::-1].astype(np.float32) + 0.5)[1]
                assert cv2.contourArea(points) <= (smallest[0] + 1.5) * (smallest[1] + 1.5)
    assert len(kept) > 25
    assert done.report["notes"]["objects cut by tiles"] > 5


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_what_is_shown_decides_to_the_pixel(task: Literal["detect", "segment", "obb"]) -> None:
    ring = corners((60.0, 10.0, 160.0, 30.0))  # 40 of its 100 columns are in the tile
    (whole,) = wholes([Item(name="a", rings=(ring,))], (200, 200), task, Counter())
    assert cut_row(whole, (0, 0, 100, 100), task, 0.401, Counter()) is None
    row = cut_row(whole, (0, 0, 100, 100), task, 0.399, Counter())
    assert row is not None
    points = row.values.reshape(-1, 2)
    if task == "detect":
        assert np.allclose(row.values, [0.8, 0.2, 0.4, 0.2])
    else:
        assert np.allclose([points.min(axis=0), points.max(axis=0)], [[0.6, 0.1], [1.0, 0.3]])


@pytest.mark.parametrize("task", ["detect", "segment", "obb"])
def test_the_host_takes_every_label(task: str, src: Path, marked: npt.NDArray[np.uint16], convert: Any) -> None:
    from ultralytics.data.utils import verify_image_label

    done: Done = convert(src, f"task={task}", "tile=128", "min_visible=0.05")
    for image in done.images():
        label = done.dst / "labels" / image.parent.name / f"{image.stem}.txt"
        checked = verify_image_label((str(image), str(label), "", False, 1, 0, 0, False))
        assert checked[0] is not None, checked[-1]
        assert checked[-1] == ""
        assert len(checked[1]) == len(label.read_text(encoding="utf-8").splitlines())


def test_objects_that_no_tile_shows_enough_of_are_counted(src: Path, convert: Any) -> None:
    Image.new("RGB", (900, 60)).save(src / "a.png")
    (src / "a.txt").write_text("0 0.5 0.5 1 0.5\n0 0.05 0.5 0.05 0.5\n", encoding="utf-8")
    done: Done = convert(src, "tile=100", "min_visible=0.3")
    assert done.report["notes"]["objects shown too little by every tile, left out"] == 1
    assert sum(done.report["objects"].values()) == 1
    assert sum(convert(src, "tile=100", "min_visible=0.1", dst="more").report["objects"].values()) > 1


def test_a_turned_box_larger_than_its_tile_becomes_upright() -> None:
    ring = np.array([[-60.0, -40], [-40, -60], [160, 140], [140, 160]])  # a strip from corner to corner of the tile
    notes: Counter[str] = Counter()
    (whole,) = wholes([Item(name="a", rings=(ring + 100,))], (400, 400), "obb", notes)
    row = cut_row(whole, (100, 100, 200, 200), "obb", 0.1, notes)
    assert row is not None
    assert notes["turned boxes larger than the picture became upright"] == 1
    assert (row.values >= 0).all()
    assert (row.values <= 1).all()


def test_a_turned_box_in_the_image_keeps_its_corners_and_their_order() -> None:
    ring = np.array([[30.0, 10], [60, 30], [50, 45], [20, 25]])
    (whole,) = wholes([Item(name="a", rings=(ring,))], (100, 100), "obb", Counter())
    row = cut_row(whole, (0, 0, 100, 100), "obb", 0.3, Counter())
    assert row is not None
    assert np.allclose(row.values.reshape(-1, 2) * 100, ring)


@pytest.mark.parametrize(
    ("box", "note"),
    [
        ((-20.0, 10.0, 30.0, 40.0), "objects reached outside the image and were clipped"),
        ((150.0, 10.0, 180.0, 40.0), "objects outside the image left out"),
        ((10.0, 10.0, 10.0, 40.0), "objects without an area left out"),
    ],
)
def test_boxes_at_and_beyond_the_border(box: tuple[float, float, float, float], note: str) -> None:
    notes: Counter[str] = Counter()
    found = wholes([Item(name="a", rings=(corners(box),), box=box, only_box=True)], (100, 100), "detect", notes)
    assert notes[note] == 1
    if found:
        row = cut_row(found[0], (0, 0, 100, 100), "detect", 0.3, notes)
        assert row is not None
        assert np.allclose(row.values, [0.15, 0.25, 0.3, 0.3])


def test_equal_objects_are_written_once() -> None:
    box = (10.0, 10.0, 30.0, 40.0)
    notes: Counter[str] = Counter()
    items = [Item(name=n, rings=(corners(box),), box=box, only_box=True) for n in ("a", "a", "b")]
    assert [w.name for w in wholes(items, (100, 100), "detect", notes)] == ["a", "b"]
    assert notes["duplicates left out"] == 1


def test_an_outline_without_area_falls_back_to_its_box() -> None:
    line = np.array([[10.0, 10], [30, 10], [20, 10]])
    item = Item(name="a", rings=(line,), box=(10.0, 5.0, 30.0, 15.0))
    (whole,) = wholes([item], (100, 100), "detect", Counter())
    assert whole.box == (10.0, 5.0, 30.0, 15.0)
