"""Which anchors lie in which boxes, found without a table of boxes by anchors.

Anchors are taken in tiles of neighbours. A box is compared with the bounds of every tile first, and only the anchors of
tiles that it can touch are put to the assigner's own test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

TILE = 256  # anchors: half a row to four rows of a level
TILES_AT_ONCE = 1 << 20  # pairs of box and tile that are looked at together
TESTS_AT_ONCE = 1 << 10  # pairs of box and tile whose anchors are tested together
MARGIN = 1e-3  # of a box's size, and in pixels: rounding must not hide a tile

Inside = Callable[[Tensor, Tensor, Tensor], Tensor]  # anchors, boxes, which boxes are valid: the assigner's own test


class Pairs(NamedTuple):
    """Boxes with the anchors that they may be given, in the order of images, boxes, anchors.

    Attributes:
        row: The box, counted over all images, (N,).
        anchor: The anchor, (N,).
    """

    row: Tensor
    anchor: Tensor


def candidate_pairs(assigner: Any, points: Tensor, boxes: Tensor, valid: Tensor) -> Pairs:
    """The pairs that `assigner.select_candidates_in_gts` finds for anchors at `points` (A, 2) and the boxes
    (B, G, 4 or 5) that are `valid` (B, G, 1)."""
    gate = _gate_of(type(assigner))
    if gate is None:
        return _pairs_inside(assigner, assigner.select_candidates_in_gts, points, boxes, valid)
    below: Any = super(gate, assigner)
    pairs = _pairs_inside(assigner, below.select_candidates_in_gts, points, boxes, valid)
    return _through_gate(assigner, pairs, boxes)


def _gate_of(kind: type) -> type | None:
    """The class that lets only the levels that fit a box's size have it, on top of the test of the next class."""
    return next((c for c in kind.__mro__ if "level_range" in vars(c)), None)


def _through_gate(assigner: Any, pairs: Pairs, boxes: Tensor) -> Pairs:
    """The pairs on levels that fit the box; all pairs of a box that none fits."""
    side = (boxes[..., 2:] - boxes[..., :2]).prod(-1).clamp(min=0).sqrt().flatten()
    strides, (low, high) = assigner.anc_strides, assigner.level_range
    at, stride = side[pairs.row], strides[pairs.anchor]
    fits = (at >= low * stride) | (stride == strides.min())
    fits &= (at <= high * stride) | (stride == strides.max())
    some = torch.zeros(side.shape[0], dtype=torch.int64, device=side.device)
    some.scatter_reduce_(0, pairs.row, fits.long(), "amax")
    kept = (fits | (some[pairs.row] == 0)).nonzero().squeeze(1)
    return Pairs(pairs.row[kept], pairs.anchor[kept])


def _pairs_inside(assigner: Any, inside: Inside, points: Tensor, boxes: Tensor, valid: Tensor) -> Pairs:
    """Those that the test `inside` finds."""
    if points.is_meta:
        return _simulated(assigner, inside, points, boxes, valid)
    tiles = _tiles(points)
    rows = valid.reshape(-1).nonzero().squeeze(1)
    flat = boxes.reshape(-1, boxes.shape[-1])[rows]
    low, high = _bounds(flat, float(assigner.stride_val))
    found = []
    each = max(TILES_AT_ONCE // tiles.shape[0], 1)
    for start in range(0, rows.shape[0], each):
        box, tile = _touching(tiles, low[start : start + each], high[start : start + each])
        for part in zip(box.split(TESTS_AT_ONCE), tile.split(TESTS_AT_ONCE), strict=True):
            found.append(_tested(inside, tiles, flat, part[0] + start, part[1], points.shape[0]))
    if not found:
        empty = rows.new_empty(0)
        return Pairs(empty, empty)
    return Pairs(rows[torch.cat([f.row for f in found])], torch.cat([f.anchor for f in found]))


def _simulated(assigner: Any, inside: Inside, points: Tensor, boxes: Tensor, valid: Tensor) -> Pairs:
    """The pairs by what a simulation knows of the content, found outside of it, since it would take a thousand small
    operators; and in it one test as large as the largest is, which is what the search holds at its peak."""
    known = [t.to("cpu") for t in (points, boxes, valid)]
    with _disable_current_modes():
        pairs = _pairs_inside(assigner, inside, *known)
        tests = (pairs.row * points.shape[0] + pairs.anchor // TILE).unique().shape[0]
    count = min(max(tests, 1), TESTS_AT_ONCE)
    some = boxes.new_empty(count, 1, boxes.shape[-1])
    inside(points.new_empty(count, 2, 1, TILE), some, some[..., :1])
    return Pairs(*(t.to(points.device) for t in pairs))


def _tiles(points: Tensor) -> Tensor:
    """`points` (A, 2) as (tiles, TILE, 2); the last tile repeats the last anchor."""
    missing = -points.shape[0] % TILE
    return torch.cat([points, points[-1:].expand(missing, 2)]).view(-1, TILE, 2)


def _bounds(boxes: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Corners (N, 2) of an upright box around each of `boxes`, sides below `least` enlarged to it."""
    if boxes.shape[1] == 4:
        centre, side = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
        half = side.clamp_min(least) / 2
    else:
        centre = boxes[:, :2]
        half = boxes[:, 2:4].clamp_min(least).norm(dim=1, keepdim=True) / 2
    half = half * (1 + MARGIN) + MARGIN + MARGIN**2 * centre.abs()
    return centre - half, centre + half


def _touching(tiles: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Which boxes can have anchors in which tiles: indices of both."""
    first, last = tiles.amin(1), tiles.amax(1)
    touches = (last[:, 0] >= low[:, :1]) & (first[:, 0] <= high[:, :1])
    touches &= (last[:, 1] >= low[:, 1:]) & (first[:, 1] <= high[:, 1:])
    box, tile = touches.nonzero(as_tuple=True)
    return box, tile


def _tested(inside: Inside, tiles: Tensor, boxes: Tensor, box: Tensor, tile: Tensor, anchors: int) -> Pairs:
    """The assigner's own test of every anchor of `tile` (N,) against the box `box` (N,).

    It broadcasts: each box is an image of its own here, and has its own anchors.
    """
    points = tiles[tile].permute(0, 2, 1).unsqueeze(2)  # (N, 2, 1, TILE)
    these = boxes[box].unsqueeze(1)
    pair, place = inside(points, these, torch.ones_like(these[..., :1])).squeeze(1).nonzero(as_tuple=True)
    anchor = tile[pair] * TILE + place
    row = box[pair]
    if anchors % TILE:
        real = (anchor < anchors).nonzero().squeeze(1)
        row, anchor = row[real], anchor[real]
    return Pairs(row, anchor)
