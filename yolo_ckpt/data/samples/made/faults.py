"""Faults of a made circuit board, put into its copper: what was changed there is what their boxes enclose."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from yolo_ckpt.data.samples.files import Image
from yolo_ckpt.data.samples.made.layout import COLUMNS, NETS, PITCH, ROWS, THIN, Layout, Pad, Point, pixel
from yolo_ckpt.data.samples.made.routing import FREE, Cell, runs
from yolo_ckpt.data.samples.made.texture import Random, bounds

# As PKU-Market-PCB calls and numbers them.
NAMES = {0: "missing_hole", 1: "mouse_bite", 2: "open_circuit", 3: "short", 4: "spur", 5: "spurious_copper"}
EACH = 3  # faults of each kind on a board
APART = 130  # pixels between two faults
AROUND = 3  # pixels that a box leaves around what was changed
CHANGED = 64  # of 255: coverage that counts as changed
REACH = 40  # pixels around a fault's middle that it may change

Labelled = tuple[int, tuple[int, int, int, int]]  # class, and x0, y0, x1, y1 with the ends excluded
Place = tuple[Point, tuple[float, float]]  # a point on a trace, and the direction it runs in, of length 1


def put_faults(rng: Random, layout: Layout, copper: Image, closed: Image) -> tuple[list[Labelled], list[Pad]]:
    """Change `copper` (H, W), coverage as 0 to 255, where `closed` (H, W) is not set: under silkscreen, pours and pads.

    Returns:
        The faults, and the pads whose holes are missing.
    """
    done: list[Labelled] = []
    holes = [pad for pad in layout.pads if pad.hole and pad.width < 100]
    blind: list[Pad] = []
    for index in rng.permutation(len(holes))[: 4 * EACH]:
        pad = holes[int(index)]
        if len(blind) < EACH and _apart(done, pad.centre):
            blind.append(pad)
            x, y = pad.centre
            half = pad.width // 2 + AROUND
            done.append((0, (x - half, y - half, x + half, y + half)))
    places = list(_places(layout))
    places = [places[i] for i in rng.permutation(len(places))]
    for kind, change in ((3, _short), (2, _open), (1, _bite), (4, _spur)):
        _along(rng, layout, copper, closed, kind, change, places, done)
    _islands(rng, layout, copper, closed, done)
    return done, blind


Change = Callable[[Random, Layout, Image, Place], bool]


def _along(
    rng: Random, layout: Layout, copper: Image, closed: Image, kind: int, change: Change,
    places: list[Place], done: list[Labelled],
) -> None:  # fmt: skip
    """Faults of a kind on traces, at the first places that suit them."""
    made = 0
    for place in places:
        if made == EACH:
            return
        if not _apart(done, place[0]) or _window(closed, place[0], 18).any():
            continue
        before = _window(copper, place[0], REACH).copy()
        if change(rng, layout, copper, place):
            made += _note(copper, before, kind, place[0], done)


def _islands(rng: Random, layout: Layout, copper: Image, closed: Image, done: list[Labelled]) -> None:
    """Copper where there should be none."""
    made = 0
    for _ in range(400):
        cell = int(rng.randint(6, ROWS - 6)), int(rng.randint(6, COLUMNS - 6))
        middle = pixel(cell)
        if made == EACH:
            return
        if layout.grid.owner[cell[0] - 1 : cell[0] + 2, cell[1] - 1 : cell[1] + 2].any() or not _apart(done, middle):
            continue
        if _window(closed, middle, 24).any() or _window(copper, middle, 24).any():
            continue
        before = _window(copper, middle, REACH).copy()
        _blob(rng, copper, middle, rng.uniform(5, 9), 255)
        made += _note(copper, before, 5, middle, done)


def _note(copper: Image, before: Image, kind: int, middle: Point, done: list[Labelled]) -> int:
    """Label what differs from `before`; how many faults that makes."""
    after = _window(copper, middle, REACH)
    found = bounds(np.abs(after.astype(np.int16) - before) > CHANGED, middle[0] - REACH, middle[1] - REACH)
    if found is None:
        return 0
    x0, y0, x1, y1 = found
    done.append((kind, (x0 - AROUND, y0 - AROUND, x1 + AROUND, y1 + AROUND)))
    return 1


def _places(layout: Layout) -> Iterator[Place]:
    """Points in straight parts of thin traces, three cells and more from their ends."""
    for way, width in layout.traces:
        if width != THIN:
            continue
        for first, last in runs(way):
            count = max(abs(last[0] - first[0]), abs(last[1] - first[1]))
            if count < 6:
                continue
            step = (last[0] - first[0]) // count, (last[1] - first[1]) // count
            length = float(np.hypot(*step))
            for i in range(3, count - 2):
                cell = first[0] + i * step[0], first[1] + i * step[1]
                yield pixel(cell), (step[1] / length, step[0] / length)


def _open(rng: Random, layout: Layout, copper: Image, place: Place) -> bool:
    """A gap with uneven ends."""
    (x, y), (along, down) = place
    for side in np.linspace(-9, 9, 7):
        centre = x - down * side, y + along * side
        shift = rng.uniform(-1.5, 1.5)
        half = rng.uniform(4.0, 5.5)
        first, last = shift - half, shift + half
        _line(
            copper, (centre[0] + along * first, centre[1] + down * first),
            (centre[0] + along * last, centre[1] + down * last), 5, 0,
        )  # fmt: skip
    return True


def _bite(rng: Random, layout: Layout, copper: Image, place: Place) -> bool:
    """Nibbled from one side, to about the middle of the trace."""
    (x, y), (along, down) = place
    side = float(rng.choice((-1.0, 1.0)))
    for shift in rng.uniform(-6, 6, int(rng.randint(1, 4))):
        deep = THIN / 2 - rng.uniform(0, 2)
        point = x + along * shift - down * side * deep, y + down * shift + along * side * deep
        _dot(copper, point, rng.uniform(4.5, 6), 0)
    return True


def _spur(rng: Random, layout: Layout, copper: Image, place: Place) -> bool:
    """A thorn from a trace into free space."""
    (x, y), (along, down) = place
    side = float(rng.choice((-1.0, 1.0)))
    near, far = ((round(x - down * side * away), round(y + along * side * away)) for away in (26, 2 * PITCH))
    if _window(copper, near, 13).any() or _owner(layout, far) != FREE:
        return False
    lean = rng.uniform(-4, 4)
    for reach, radius in ((6, 5), (9, 4), (12, 3), (rng.uniform(14, 17), 2)):
        aside = lean * reach / 15
        _dot(copper, (x + along * aside - down * side * reach, y + down * aside + along * side * reach), radius, 255)
    return True


def _short(rng: Random, layout: Layout, copper: Image, place: Place) -> bool:
    """A bridge to the trace that runs beside."""
    (x, y), (along, down) = place
    if along and down:
        return False
    for side in (-1, 1):
        other = round(x - down * side * PITCH), round(y + along * side * PITCH)
        mine, its = _owner(layout, (x, y)), _owner(layout, other)
        if its <= NETS or its == mine or copper[other[1], other[0]] < 255:
            continue
        for shift in rng.uniform(-2.5, 2.5, 3):
            aside = along * shift, down * shift
            first, last = (x + aside[0], y + aside[1]), (other[0] + aside[0], other[1] + aside[1])
            _line(copper, first, last, int(rng.randint(3, 6)), 255)
        return True
    return False


def _blob(rng: Random, copper: Image, middle: Point, radius: float, value: int) -> None:
    for _ in range(5):
        _dot(copper, tuple(middle + rng.uniform(-0.6, 0.6, 2) * radius), radius * rng.uniform(0.5, 0.8), value)


def _dot(image: Image, centre: tuple[float, ...], radius: float, value: int) -> None:
    import cv2

    point = round(centre[0] * 16), round(centre[1] * 16)
    cv2.circle(image, point, round(radius * 16), value, -1, cv2.LINE_AA, 4)


def _line(image: Image, a: tuple[float, float], b: tuple[float, float], width: int, value: int) -> None:
    import cv2

    first, last = ((round(x * 16), round(y * 16)) for x, y in (a, b))
    cv2.line(image, first, last, value, width, cv2.LINE_AA, 4)


def _window(image: Image, middle: Point, half: int) -> Image:
    x, y = middle
    return image[y - half : y + half, x - half : x + half]


def _apart(done: list[Labelled], point: Point) -> bool:
    return all(max(abs((b[0] + b[2]) / 2 - point[0]), abs((b[1] + b[3]) / 2 - point[1])) > APART for _, b in done)


def _cell(point: Point) -> Cell:
    x0, y0 = pixel((0, 0))
    return round((point[1] - y0) / PITCH), round((point[0] - x0) / PITCH)


def _owner(layout: Layout, point: Point) -> int:
    row, column = _cell(point)
    return int(layout.grid.owner[row, column]) if 0 <= row < ROWS and 0 <= column < COLUMNS else FREE
