"""The largest values of rows that are zero almost everywhere, with the choice that `torch.topk` makes among equals.

Which of several equal values `topk` takes depends on the whole row. What is used here:

1. On the CPU, `topk` of `k` among at least `64 k` values fills a heap with the first `k` and lets a later value in only
   when it is greater than the least in the heap. On CUDA it takes the first of equals. So no zero behind the first `k`
   places of a row without negative values is ever taken, and taking them away changes nothing.
2. What is left of a row: its first `k` places, then its other values in their order, then zeros up to `64 k` places,
   so that the CPU takes the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

PLACES = 64  # for each of the `k`: rule 1
AT_ONCE = 1 << 20  # places of all rows that are looked at together


class Top(NamedTuple):
    """What was taken of each row.

    Attributes:
        place: Places in the whole row, (rows, k).
        entry: Which of the given values is there; -1 for a zero that was not given, (rows, k).
    """

    place: Tensor
    entry: Tensor


def top_of_rows(values: Tensor, row: Tensor, place: Tensor, rows: int, k: int) -> Top:
    """The `k` largest of every row. Given are `values` (N,), none negative, at `place` (N,) of `row` (N,), ordered by
    row and place; everything else in a row, which has at least `64 k` places, is zero."""
    first = torch.arange(k, device=row.device).repeat(rows, 1)  # what is taken of a row of zeros
    found = Top(first, torch.full_like(first, -1))
    if not row.shape[0]:
        return found
    counts = torch.zeros(rows, dtype=torch.int64, device=row.device).scatter_add_(0, row, torch.ones_like(row))
    least = PLACES * k
    long = counts > least - k
    for members in ((~long).nonzero().squeeze(1), long.nonzero().squeeze(1)):
        if members.shape[0]:
            _of_members(found, values, row, place, counts, members, k)
    return found


def _of_members(
    found: Top, values: Tensor, row: Tensor, place: Tensor, counts: Tensor, members: Tensor, k: int
) -> None:
    """Fill in the rows `members`, all of them short or all of them long."""
    width = max(PLACES * k, k + int(counts[members].max()))
    for some in members.split(max(AT_ONCE // width, 1)):
        local = torch.full_like(counts, -1).scatter_(0, some, torch.arange(some.shape[0], device=some.device))
        entry = (local[row] >= 0).nonzero().squeeze(1)
        found.place[some], found.entry[some] = _of_some(
            values, local[row[entry]], place, entry, some.shape[0], k, width
        )


def _of_some(
    values: Tensor, row: Tensor, place: Tensor, entry: Tensor, rows: int, k: int, width: int
) -> tuple[Tensor, Tensor]:
    """Place and entry of what is taken of `rows` rows, given which entries they have."""
    at = place[entry]
    early = at < k
    starts = torch.searchsorted(row, torch.arange(rows, device=row.device))
    before = torch.zeros(rows, dtype=torch.int64, device=row.device).scatter_add_(0, row, early.long())
    rank = torch.arange(row.shape[0], device=row.device) - starts[row]
    column = torch.where(early, at, k + rank - before[row])
    kept = values.new_zeros(rows, width)
    kept[row, column] = values[entry]
    entries = torch.full((rows, width), -1, dtype=torch.int64, device=row.device)
    entries[row, column] = entry
    taken = kept.topk(k, dim=-1).indices
    which = entries.gather(1, taken)
    return torch.where(taken < k, taken, place[which.clamp_min(0)]), which
