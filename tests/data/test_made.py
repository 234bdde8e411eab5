"""Made pictures: the only faults are those with a label, and every label is on one; the same on every machine."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from yolo_ckpt.data.samples import industrial
from yolo_ckpt.data.samples.files import Image, label_line
from yolo_ckpt.data.samples.made import boards, faults, layout, strips
from yolo_ckpt.data.samples.made.texture import Random

MISSING_HOLE, OPEN, SHORT, ISLAND = 0, 2, 3, 5
SEED = 4


@pytest.fixture(scope="module")
def board() -> tuple[Image, list[faults.Labelled]]:
    return boards.board(Random(SEED))


def pieces(copper: Image) -> tuple[int, Image]:
    count, labelled = cv2.connectedComponents((copper > 127).astype(np.uint8))
    return count - 1, labelled


def drawn(made: layout.Layout) -> Image:
    return np.maximum(boards._drawn_pads(made.pads, 0), boards._drawn_traces(made))


@pytest.mark.parametrize("seed", [seed for seeds in industrial.BOARDS.values() for seed in seeds])
def test_a_board_without_faults_has_none(seed: int) -> None:
    """Pads that a trace joins are one piece of copper, all others are pieces of their own."""
    made = layout.made_layout(Random(seed))
    group = {pad.cell: pad.cell for pad in made.pads}

    def root(cell: tuple[int, int]) -> tuple[int, int]:
        return cell if group[cell] == cell else root(group[cell])

    for way, _ in made.traces:
        group[root(way[0])] = root(way[-1])
    assert len(made.traces) > 80
    count, labelled = pieces(drawn(made))
    pairs = {(root(pad.cell), labelled[pad.centre[1], pad.centre[0]]) for pad in made.pads}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) == count


MORE = {OPEN: 1, ISLAND: 1, SHORT: -1}  # pieces of copper around a fault; others leave them as they are


@pytest.mark.parametrize("seed", range(1, 9))
def test_faults_are_what_their_names_say(seed: int) -> None:
    """An open trace makes two pieces of copper of one, a short one of two that were apart, an island is one more; bites
    and spurs leave the pieces as they are. Nothing is changed without a label."""
    rng = Random(seed)
    made = layout.made_layout(rng)
    copper = drawn(made)
    before, (_, nets) = copper.copy(), pieces(copper)
    found, blind = faults.put_faults(rng, made, copper, boards._drawn_pads(made.pads, 14))
    assert {kind for kind, _ in found} == set(faults.NAMES)
    assert len(blind) == sum(kind == MISSING_HOLE for kind, _ in found)
    changed = before != copper
    for kind, (x0, y0, x1, y1) in found:
        around = np.s_[y0 - 4 : y1 + 4, x0 - 4 : x1 + 4]
        assert pieces(copper[around])[0] - pieces(before[around])[0] == MORE.get(kind, 0), kind
        assert kind != SHORT or len(set(np.unique(nets[around])) - {0}) > 1
        assert kind == MISSING_HOLE or changed[y0:y1, x0:x1].any()
        changed[around] = False
    assert not changed.any()


def test_boxes_of_faults_are_small_and_apart(board: tuple[Image, list[faults.Labelled]]) -> None:
    image, found = board
    assert image.shape == (layout.HEIGHT, layout.WIDTH, 3)
    for kind, (x0, y0, x1, y1) in found:
        assert 12 <= x1 - x0 <= (52 if kind == MISSING_HOLE else 32)
        assert 12 <= y1 - y0 <= (52 if kind == MISSING_HOLE else 32)
    centres = np.array([((b[0] + b[2]) / 2, (b[1] + b[3]) / 2) for _, b in found])
    away = np.abs(centres[:, None] - centres[None]).max(axis=2) + 1e9 * np.eye(len(found))
    assert away.min() > 100


def test_a_hole_that_is_missing_shows_metal(board: tuple[Image, list[faults.Labelled]]) -> None:
    """The middle of a pad is bright where its hole is missing, and dark elsewhere."""
    image, found = board
    made = layout.made_layout(Random(SEED))
    missing = {((b[0] + b[2]) // 2, (b[1] + b[3]) // 2) for kind, b in found if kind == MISSING_HOLE}
    assert missing
    for pad in made.pads:
        x, y = pad.centre
        if pad.hole:
            bright = image[y - 2 : y + 3, x - 2 : x + 3].mean() > 90
            assert bright == ((x, y) in missing)


def test_a_strip_shows_its_faults() -> None:
    """Every box differs from the columns around it, which noise and dirty pixels do not change along a column."""
    for seed in (*industrial.STRIPS["train"], *industrial.STRIPS["val"]):
        image, found = strips.strip(Random(seed))
        assert image.shape == (strips.HEIGHT, strips.WIDTH)
        assert found
        level = image - np.median(image, axis=0, keepdims=True)
        usual = level.std()
        for kind, (x0, y0, x1, y1) in found:
            inside = np.abs(level[y0:y1, x0:x1])
            assert inside.max() > 3 * usual, (seed, kind)
            assert (x1 - x0) * (y1 - y0) >= 36


def test_strips_have_long_scratches() -> None:
    found = [strips.strip(Random(seed))[1] for seeds in industrial.STRIPS.values() for seed in seeds]
    lengths = [box[2] - box[0] for faults_of_one in found for _, box in faults_of_one]
    assert sum(length > 400 for length in lengths) >= 8


def test_the_same_seed_gives_the_same_picture() -> None:
    first, second = strips.strip(Random(1)), strips.strip(Random(1))
    assert (first[0] == second[0]).all()
    assert first[1] == second[1]
    assert not (strips.strip(Random(2))[0] == first[0]).all()


def test_a_strip_is_the_same_on_every_machine() -> None:
    """Boxes to a pixel, grey values to rounding: the arithmetic is not the same to the last bit everywhere."""
    image, found = strips.strip(Random(2))
    boxes = np.array(
        [
            (1119, 118, 1148, 153),
            (1971, 68, 1982, 94),
            (706, 196, 723, 206),
            (845, 188, 867, 201),
            (3708, 149, 3726, 170),
        ]
    )
    assert [kind for kind, _ in found] == [1] * 5
    assert np.abs(np.array([box for _, box in found]) - boxes).max() <= 1
    assert image.mean() == pytest.approx(122.821, abs=0.05)
    assert image.std() == pytest.approx(16.489, abs=0.05)


def test_a_board_is_the_same_on_every_machine(board: tuple[Image, list[faults.Labelled]]) -> None:
    image, found = board
    holes = [box for kind, box in sorted(found) if kind == MISSING_HOLE]
    assert holes == [(1054, 166, 1106, 218), (1414, 1942, 1466, 1994), (1710, 1254, 1746, 1290)]
    opens = [box for kind, box in sorted(found) if kind == OPEN]
    expected = [(710, 300, 731, 325), (1643, 1763, 1670, 1790), (2388, 1742, 2414, 1763)]
    assert np.abs(np.array(opens) - expected).max() <= 2
    assert image.mean(axis=(0, 1)) == pytest.approx((56.457, 83.077, 54.010), abs=0.1)
    assert image.std(axis=(0, 1)) == pytest.approx((43.901, 40.402, 48.774), abs=0.1)


def test_label_lines() -> None:
    assert label_line(3, (10, 20, 30, 60), 200, 100) == "3 0.1000000 0.4000000 0.1000000 0.4000000"


@pytest.mark.parametrize(("its", "bridged"), [(1001, False), (1002, True)])
def test_a_short_joins_two_nets(its: int, bridged: bool) -> None:
    """Two traces side by side: of one net there is nothing to short."""
    made = layout.Layout(traces=[([(row, column) for column in range(10, 30)], layout.THIN) for row in (10, 11)])
    made.grid.owner[10, 10:30], made.grid.owner[11, 10:30] = 1001, its
    copper = boards._drawn_traces(made)
    assert faults._short(Random(0), made, copper, (layout.pixel((10, 20)), (1.0, 0.0))) == bridged
    assert pieces(copper)[0] == (1 if bridged else 2)
