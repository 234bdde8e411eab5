"""What stands on a made circuit board: footprints of parts, the nets between them, and their names in white."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from yolo_ckpt.data.samples.made.routing import BLOCKED, FREE, Cell, Grid
from yolo_ckpt.data.samples.made.texture import Random

WIDTH, HEIGHT = 3000, 2200
PITCH = 24  # pixels from one cell of the grid to the next
MARGIN = 60  # of the table around the board
ORIGIN = 96  # of the grid's first cell
ROWS, COLUMNS = (HEIGHT - 2 * ORIGIN) // PITCH, (WIDTH - 2 * ORIGIN) // PITCH
THIN, WIDE = 12, 18  # traces, in pixels
VIA = 0.16  # share of the pins from which a trace goes to the other side of the board
NETS = 1000  # above it are the numbers of nets, below those of pads without one
Point = tuple[int, int]  # x and y in pixels


@dataclass(frozen=True, kw_only=True)
class Pad:
    """A pad: where, how large, and its drill hole (0: none). `corner` 1 is round, 0 is square."""

    cell: Cell
    width: int
    height: int
    hole: int = 0
    corner: float = 0.2

    @property
    def centre(self) -> Point:
        """In pixels."""
        return pixel(self.cell)


@dataclass(frozen=True, kw_only=True)
class Text:
    """Words in silkscreen, and where they begin."""

    at: Point
    words: str
    size: float = 0.75


@dataclass
class Layout:
    """A board without faults."""

    grid: Grid = field(default_factory=lambda: Grid(ROWS, COLUMNS))
    pads: list[Pad] = field(default_factory=list)
    traces: list[tuple[list[Cell], int]] = field(default_factory=list)  # ways, and their widths in pixels
    frames: list[tuple[Point, Point]] = field(default_factory=list)  # rectangles in silkscreen
    texts: list[Text] = field(default_factory=list)
    parts: list[list[Pad]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)


def pixel(cell: Cell) -> Point:
    """The middle of a cell, x and y."""
    return ORIGIN + cell[1] * PITCH, ORIGIN + cell[0] * PITCH


def made_layout(rng: Random) -> Layout:
    """A board with parts at random places and traces between their pins."""
    layout = Layout()
    _corners(layout)
    _rows_of_pins(layout, rng)
    for sides in (4, 4, 2, 2, 2, 2, 2):
        _chip(layout, rng, sides)
    for _ in range(64):
        _passive(layout, rng)
    _connect(layout, rng)
    layout.texts.append(Text(at=(ORIGIN + 300, HEIGHT - MARGIN - 26), words="MADE BOARD  REV B", size=1.1))
    return layout


def _corners(layout: Layout) -> None:
    """Mounting holes."""
    for row in (2, ROWS - 3):
        for column in (2, COLUMNS - 3):
            _place(layout, [Pad(cell=(row, column), width=128, height=128, hole=76, corner=1)], reach=4)


def _rows_of_pins(layout: Layout, rng: Random) -> None:
    """Pin headers along the board's edges."""
    for row, column, down, right in ((4, 20, 0, 3), (ROWS - 5, 44, 0, 3), (24, 4, 3, 0), (20, COLUMNS - 5, 3, 0)):
        count = int(rng.randint(8, 14))
        pads = [
            Pad(cell=(row + i * down, column + i * right), width=46, height=46, hole=26, corner=float(i > 0))
            for i in range(count)
        ]
        _place(layout, pads, reach=1)
        _frame(layout, pads, 36, "J")


def _chip(layout: Layout, rng: Random, sides: int) -> None:
    """An integrated circuit with pins on two or four sides."""
    pins = int(rng.randint(5, 9)) if sides == 2 else int(rng.randint(8, 12))
    deep = 9 if sides == 2 else 2 * pins + 4
    high = 2 * pins + 4
    corner = _room(layout, rng, high + 8, deep + 8)
    if corner is None:
        return
    row, column = corner[0] + 4, corner[1] + 4
    flat, upright = {"width": 50, "height": 20}, {"width": 20, "height": 50}
    pads = [Pad(cell=(row + 3 + 2 * i, column + x), **flat) for i in range(pins) for x in (0, deep)]
    if sides == 4:
        pads += [Pad(cell=(row + y, column + 3 + 2 * i), **upright) for i in range(pins) for y in (0, high)]
    _place(layout, pads, reach=0)
    inside = slice(row + 2, row + high - 1), slice(column + 2, column + deep - 1)
    layout.grid.owner[inside] = np.where(layout.grid.owner[inside] == FREE, BLOCKED, layout.grid.owner[inside])
    x0, y0, x1, y1 = (*pixel((row + 2, column + 2)), *pixel((row + high - 2, column + deep - 2)))
    layout.frames.append(((x0, y0), (x1, y1)))
    layout.texts.append(Text(at=(x0 + 14, y0 + 40), words=_name(layout, "U")))


def _passive(layout: Layout, rng: Random) -> None:
    """A resistor or capacitor: two pads."""
    upright = bool(rng.randint(0, 2))
    corner = _room(layout, rng, 8 if upright else 5, 5 if upright else 8)
    if corner is None:
        return
    row, column = corner[0] + 2, corner[1] + 2
    ends = [(row, column), (row + 3, column) if upright else (row, column + 3)]
    pads = [Pad(cell=end, width=40, height=36) if upright else Pad(cell=end, width=36, height=40) for end in ends]
    _place(layout, pads, reach=1)
    _frame(layout, pads, 10, str(rng.choice(("R", "C", "R", "C", "D"))))


def _frame(layout: Layout, pads: list[Pad], wider: int, letter: str) -> None:
    """A silkscreen frame around a part, with its name above."""
    x0 = min(p.centre[0] - p.width // 2 for p in pads) - wider
    y0 = min(p.centre[1] - p.height // 2 for p in pads) - wider
    x1 = max(p.centre[0] + p.width // 2 for p in pads) + wider
    y1 = max(p.centre[1] + p.height // 2 for p in pads) + wider
    layout.frames.append(((x0, y0), (x1, y1)))
    layout.texts.append(Text(at=(x0, y0 - 9), words=_name(layout, letter), size=0.62))


def _name(layout: Layout, letter: str) -> str:
    layout.names[letter] = layout.names.get(letter, 0) + 1
    return f"{letter}{layout.names[letter]}"


def _room(layout: Layout, rng: Random, rows: int, columns: int) -> Cell | None:
    """The upper left cell of a free place of that size, at random; None where none is found."""
    for _ in range(60):
        row, column = int(rng.randint(8, ROWS - rows - 8)), int(rng.randint(8, COLUMNS - columns - 8))
        if not layout.grid.owner[row : row + rows, column : column + columns].any():
            return row, column
    return None


def _place(layout: Layout, pads: list[Pad], reach: int) -> None:
    """Put a part down. Each pad is a net of its own, which owns the cells that it covers and `reach` around."""
    layout.parts.append(pads)
    for pad in pads:
        layout.pads.append(pad)
        down, right = (max(reach, round((side / 2 + 10) / PITCH)) for side in (pad.height, pad.width))
        row, column = pad.cell
        layout.grid.owner[max(row - down, 0) : row + down + 1, max(column - right, 0) : column + right + 1] = BLOCKED
    for pad in pads:
        layout.grid.owner[pad.cell] = len(layout.pads) + 1


def _connect(layout: Layout, rng: Random) -> None:
    """Traces between pins of different parts, from each to a near one, as buses run; else to a via."""
    left = dict(enumerate((part, pad) for part, pads in enumerate(layout.parts[4:]) for pad in pads))
    net = NETS
    while left:
        net += 1
        first = min(left)
        part, pad = left.pop(first)
        others = sorted((_away(pad, other), key) for key, (its, other) in left.items() if its != part)
        near = [] if rng.random_sample() < VIA else [key for _, key in others[:3]]
        joined = next((key for key in near if _trace(layout, pad, left[key][1], net, rng)), None)
        if joined is None:
            _to_via(layout, pad, net, rng)
        else:
            del left[joined]


def _away(a: Pad, b: Pad) -> int:
    return abs(a.cell[0] - b.cell[0]) + abs(a.cell[1] - b.cell[1])


def _trace(layout: Layout, a: Pad, b: Pad, net: int, rng: Random) -> bool:
    """A trace between two pads, if there is a way."""
    opened = [_opened(layout.grid, pad, net) for pad in (a, b)]
    way = layout.grid.route(a.cell, b.cell, net)
    for cells in opened:
        for cell, owner in cells.items():
            if way is None or layout.grid.owner[cell] != net or cell not in way:
                layout.grid.owner[cell] = owner
    if way is not None:
        layout.traces.append((way, WIDE if rng.random_sample() < 0.12 else THIN))
    return way is not None


def _opened(grid: Grid, pad: Pad, net: int) -> dict[Cell, int]:
    """Give `net` the cells around a pad; what they were before."""
    down, right = (max(1, round((side / 2 + 10) / PITCH)) for side in (pad.height, pad.width))
    row, column = pad.cell
    cells = {(row, c): int(grid.owner[row, c]) for c in range(column - right, column + right + 1)}
    cells |= {(r, column): int(grid.owner[r, column]) for r in range(row - down, row + down + 1)}
    cells = {cell: owner for cell, owner in cells.items() if owner == BLOCKED or cell == pad.cell}
    for cell in cells:
        grid.owner[cell] = net
    return cells


def _to_via(layout: Layout, pad: Pad, net: int, rng: Random) -> None:
    """A short trace to a via, where there is room for one."""
    for _ in range(12):
        row, column = pad.cell[0] + int(rng.randint(-9, 10)), pad.cell[1] + int(rng.randint(-9, 10))
        if not (2 <= row < ROWS - 2 and 2 <= column < COLUMNS - 2):
            continue
        if layout.grid.owner[row - 1 : row + 2, column - 1 : column + 2].any():
            continue
        via = Pad(cell=(row, column), width=30, height=30, hole=13, corner=1)
        if _trace(layout, pad, via, net, rng):
            layout.pads.append(via)
            around = layout.grid.owner[row - 1 : row + 2, column - 1 : column + 2]
            around[around == FREE] = BLOCKED
            return
