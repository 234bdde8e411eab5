"""What is said about each kind of bad label file, and that the host judges rows as the check does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.check.made import ROW, add, encoded, make_set, noise
from tests.data.check.test_images import checked, contents, said_of
from yolo_ckpt.data.check.labels import Rules, read_labels

pytest.importorskip("ultralytics")

TRIANGLE = "0 0.1 0.1 0.5 0.1 0.5 0.5\n"

# rows, task, code, kind, words
LABELS: dict[str, tuple[str | bytes, str, tuple[str, str, str] | None]] = {
    "no object": ("", "detect", None),
    "blank lines and a byte-order mark": ("\ufeff\n0 0.5 0.5 0.25 0.25\n\n", "detect", None),
    "box on the border": ("0 0.05 0.5 0.1 0.25\n", "detect", None),
    "not UTF-8": (b"0 0.5 0.5 0.25 0.25 \xff\n", "detect", ("label-unreadable", "loses", "not UTF-8")),
    "a word": ("0 0.5 0.5 0.25 wide\n", "detect", ("label-malformed", "loses", "row 1: wide is not a number")),
    "four columns": (ROW + "0 0.5 0.5 0.25\n", "detect", ("label-malformed", "loses", "row 2 has 4 columns")),
    "six columns": (ROW + "0 0.5 0.5 0.25 0.25 0.9\n", "detect", ("label-malformed", "loses", "row 2 has 6 columns")),
    "polygon of 2 points among polygons": (
        TRIANGLE + "0 0.1 0.1 0.5 0.5\n", "segment", ("label-malformed", "loses", "row 2 is a box, or a polygon of 2")
    ),
    "polygons of 2 points alone": ("0 0.5 0.5 0.6 0.6\n", "segment", ("label-boxes", "fails", "needs polygons")),
    "half a point": ("0 0.1 0.1 0.5 0.1 0.5 0.5 0.2\n", "segment", ("label-malformed", "loses", "row 1 has 8 columns")),
    "class 7 of 2": (ROW + "7 0.5 0.5 0.2 0.2\n", "detect", ("label-class", "loses", "row 2: class 7; the data")),
    "class -1": ("-1 0.5 0.5 0.2 0.2\n", "detect", ("label-class", "loses", "class -1")),
    "class 0.5": ("0.5 0.5 0.5 0.2 0.2\n", "detect", ("label-class", "loses", "class 0.5")),
    "pixels instead of shares": ("0 40 32 20 16\n", "detect", ("label-outside", "loses", "row 1: 40")),
    "centre outside": (ROW + "0 1.5 0.5 0.2 0.2\n", "detect", ("label-outside", "loses", "row 2: 1.5")),
    "negative width": ("0 0.5 0.5 -0.2 0.2\n", "detect", ("label-outside", "loses", "row 1: -0.2; it is negative")),
    "not a number": ("0 nan 0.5 0.2 0.2\n", "detect", ("label-outside", "loses", "row 1: nan")),
    "no area": ("0 0.5 0.5 0 0.2\n", "detect", ("label-no-area", "loses", "1 object")),
    "twice the same row": (ROW + ROW, "detect", ("label-duplicate", "note", "1 row")),
    "over the edge": ("0 0.9 0.5 0.4 0.2\n", "detect", ("label-over-edge", "note", "by up to 8 px")),
    "too small": ("0 0.5 0.5 0.02 0.2\n", "detect", ("object-too-small", "loses", "down to 1.9 px")),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELS)
def test_what_is_said(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, task, expected = LABELS[name]
    yaml = make_set(tmp_path)
    if task == "segment":
        for label in (tmp_path / "labels").rglob("*.txt"):
            label.write_text(TRIANGLE, encoding="utf-8")
    add(tmp_path, "train/a.png", encoded("PNG"), rows)
    before = contents(tmp_path)
    status, report = checked(yaml, capsys, f"task={task}")
    if expected is None:
        assert (status, report["findings"]) == (0, [])
    else:
        [(code, kind, reason)] = said_of(report)
        assert (code, kind) == expected[:2]
        assert expected[2] in reason
        assert report["findings"][0]["file"].endswith("a.txt")
        assert status == (kind != "note")
    assert contents(tmp_path) == before


def test_an_image_without_a_label_file_is_background(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    image = add(tmp_path, "train/a.png", encoded("PNG"), None)
    status, report = checked(yaml, capsys)
    assert status == 0
    assert said_of(report, image)[0][:2] == ("label-missing", "note")
    assert report["splits"]["train"]["background"] == 1


def test_a_scratch_that_is_too_long_for_its_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml = make_set(tmp_path)
    add(tmp_path, "train/a.png", encoded("PNG", noise(size=(1000, 40))), "0 0.5 0.5 0.9 0.1\n")
    assert said_of(checked(yaml, capsys)[1])[0][0] == "object-too-thin"  # 900 x 4 px
    assert {said[0] for said in said_of(checked(yaml, capsys, "imgsz=320")[1])} == {"object-too-small"}


def test_the_host_drops_such_objects(tmp_path: Path) -> None:
    from ultralytics.data.augment import RandomPerspective

    from yolo_ckpt.data.check.labelfindings import LEAST_PX, MOST_RATIO

    boxes = np.array([[0, 0, LEAST_PX, 50], [0, 0, LEAST_PX + 0.1, 50], [0, 0, 300, 3], [0, 0, 299, 3]], np.float64).T
    assert MOST_RATIO == 100
    assert RandomPerspective.box_candidates(boxes, boxes).tolist() == [False, True, False, True]


def _random_rows(random: np.random.Generator) -> str:
    """Rows as people have them: mostly right, of one kind or mixed, some of them wrong."""
    kinds = [("5",), ("9",), ("7",), ("5", "7"), ("5", "6"), ("7", "9", "8"), ("11",), ("2",), ("3", "7")]
    columns = kinds[random.integers(len(kinds))]
    rows = []
    for _ in range(random.integers(1, 6)):
        numbers = random.uniform(0.02, 0.98, int(random.choice(columns)) - 1)
        if random.random() < 0.15:
            numbers[random.integers(len(numbers))] = random.choice([-0.005, -0.02, 1.005, 1.2, 0, np.nan, np.inf, 40])
        label = random.choice(["0", "1", "2", "-1", "0.5", "x", "1.0"], p=[0.5, 0.38, 0.03, 0.03, 0.02, 0.02, 0.02])
        rows.append(" ".join([str(label), *(f"{n:.3f}" for n in numbers)]))
    rows += rows[: random.integers(0, 3)] if random.random() < 0.3 else []
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("task", "points", "dims"), [("detect", 0, 0), ("detect", 2, 3), ("segment", 0, 0), ("pose", 3, 2), ("pose", 2, 3)]
)
def test_rows_are_judged_as_by_the_host(task: str, points: int, dims: int, tmp_path: Path) -> None:
    from ultralytics.data.utils import verify_image_label

    random = np.random.default_rng(points + 10 * dims)
    image, label = tmp_path / "a.png", tmp_path / "a.txt"
    image.write_bytes(encoded("PNG"))
    outcomes = []
    for _ in range(400):
        label.write_text(_random_rows(random), encoding="utf-8")
        given = (str(image), str(label), "", task == "pose", 2, points, dims, False)
        _, rows, _, segments, _, _, _, _, dropped, message = verify_image_label(given)
        mine = read_labels(str(label), Rules(task=task, classes=2, points=points, dims=dims), 80, 64)
        assert bool(mine.code) == bool(dropped), (label.read_text(), message, mine)
        if not dropped:
            assert sorted(map(tuple, mine.boxes.tolist())) == sorted(map(tuple, rows[:, 1:].tolist()))
            assert mine.polygons == len(segments)
            assert (f"{mine.duplicates} duplicate labels" in message) == bool(mine.duplicates)
        outcomes.append(mine.code)
    assert {"", "label-malformed", "label-outside", "label-class"} <= set(outcomes)


def test_any_class_is_right_where_all_become_one(tmp_path: Path) -> None:
    label = tmp_path / "a.txt"
    label.write_text("7 0.5 0.5 0.2 0.2\n", encoding="utf-8")
    assert read_labels(str(label), Rules(task="detect", classes=2), 80, 64).code == "label-class"
    assert not read_labels(str(label), Rules(task="detect", classes=0), 80, 64).code


def test_rotated_boxes_have_the_sides_that_the_host_trains_on(tmp_path: Path) -> None:
    import torch
    from ultralytics.utils.ops import xyxyxyxy2xywhr

    corners = np.array([[0.5, 0.2], [0.8, 0.5], [0.7, 0.6], [0.4, 0.3]])
    label = tmp_path / "a.txt"
    label.write_text("0 " + " ".join(f"{n:.4f}" for n in corners.ravel()), encoding="utf-8")
    mine = read_labels(str(label), Rules(task="obb", classes=1), 200, 100).sides
    theirs = xyxyxyxy2xywhr(torch.tensor(corners * [200, 100], dtype=torch.float32).reshape(1, 8))
    assert mine is not None
    assert sorted(mine[0]) == pytest.approx(sorted(theirs[0, 2:4].tolist()), rel=1e-3)
