"""Where the tiles of an image lie."""

from __future__ import annotations

import math

Tile = tuple[int, int, int, int]  # x0, y0, x1, y1


def tiles(width: int, height: int, tile: int, overlap: float) -> list[Tile]:
    """Tiles of `tile` x `tile` px that cover an image; a side that is shorter than that stays whole.

    Neighbours share `overlap` of a tile at least. The tiles are spread evenly, so that all but those of short sides are
    full: none sticks out, and the last is no sliver.
    """
    return [
        (x, y, min(x + tile, width), min(y + tile, height))
        for y in _starts(height, tile, overlap)
        for x in _starts(width, tile, overlap)
    ]


def _starts(side: int, tile: int, overlap: float) -> list[int]:
    if side <= tile:
        return [0]
    step = max(1, math.floor(tile * (1 - overlap)))
    count = math.ceil((side - tile) / step) + 1
    return [(side - tile) * i // (count - 1) for i in range(count)]
