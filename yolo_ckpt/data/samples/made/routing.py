"""Traces of a made circuit board: paths on a grid, in directions of 45 degrees, that never touch each other."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]  # row and column on the grid
STEPS: tuple[Cell, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
DIAGONAL = 1.4142
BEND = 0.8  # what a change of direction costs, in cells
FREE = 0
BLOCKED = -1
MOST_VISITS = 1000  # a way that is not found by then is left out


class Grid:
    """Who owns each cell: nobody (FREE), nobody ever (BLOCKED), or a net by its number."""

    def __init__(self, rows: int, columns: int) -> None:
        self.owner: NDArray[np.int32] = np.zeros((rows, columns), np.int32)

    def route(self, start: Cell, end: Cell, net: int) -> list[Cell] | None:
        """The shortest way with few bends (A*), which `net` owns from then on; None where there is none."""
        free = np.pad((self.owner == FREE) | (self.owner == net), 1).tolist()  # with a border, so that -1 is no cell
        open_cells: list[tuple[float, Cell]] = [(0.0, start)]
        cost: dict[Cell, float] = {start: 0.0}
        before: dict[Cell, Cell] = {}
        visits = 0
        while open_cells and visits < MOST_VISITS:
            _, cell = heapq.heappop(open_cells)
            if cell == end:
                return self._take(cell, before, net)
            visits += 1
            for following, price in _around(free, cell, before.get(cell)):
                total = cost[cell] + price
                if total < cost.get(following, np.inf) - 1e-9:
                    cost[following], before[following] = total, cell
                    heapq.heappush(open_cells, (total + _distance(following, end), following))
        return None

    def _take(self, cell: Cell, before: dict[Cell, Cell], net: int) -> list[Cell]:
        path = [cell]
        while path[-1] in before:
            path.append(before[path[-1]])
        for taken in path:
            self.owner[taken] = net
        for a, b in itertools.pairwise(path):
            for corner in ((a[0], b[1]), (b[0], a[1])):  # a trace there would come too close to a slanting step
                if self.owner[corner] == FREE:
                    self.owner[corner] = net
        return path[::-1]


def _around(free: list[list[bool]], cell: Cell, last: Cell | None) -> Iterator[tuple[Cell, float]]:
    """The free cells beside `cell`, and what a step there costs; `free` has a border."""
    row, column = cell[0] + 1, cell[1] + 1
    for down, right in STEPS:
        if not free[row + down][column + right]:
            continue
        if down and right and not (free[row][column + right] and free[row + down][column]):
            continue  # it would touch, or cross, what runs by the corner
        following = (cell[0] + down, cell[1] + right)
        straight = last is None or (cell[0] - last[0], cell[1] - last[1]) == (down, right)
        yield following, (DIAGONAL if down and right else 1.0) + (0.0 if straight else BEND)


def _distance(a: Cell, b: Cell) -> float:
    long, short = sorted((abs(a[0] - b[0]), abs(a[1] - b[1])), reverse=True)
    return long + (DIAGONAL - 1) * short


def runs(path: list[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """The straight parts of a path: their first and last cells."""
    first = 0
    for i in range(1, len(path)):
        ends = i == len(path) - 1
        if ends or _step(path[i], path[i + 1]) != _step(path[i - 1], path[i]):
            yield path[first], path[i]
            first = i


def _step(a: Cell, b: Cell) -> Cell:
    return b[0] - a[0], b[1] - a[1]
