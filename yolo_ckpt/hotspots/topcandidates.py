"""The highest class scores of an image, found a part of its anchors at a time.

The host makes a row of every pair of anchor and class above the threshold: early in training that is nearly all of
them, 27.5 million at 4096 px with 80 classes. Then it sorts them and keeps the first 30,000. Here:

1. Pairs are taken in the host's order, anchors before classes, next to the best of those before them. Of equal scores
   the first stay: what is left is what a stable sort of all pairs begins with.
2. The host's sort is `torch.argsort`, which is not stable on every device. Where equal scores decide, `in_full_order`
   gives its order: it sorts all scores with the same call, but makes no rows of them.
3. An anchor with a score that is not a number is left out, as the host does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

AT_ONCE = 1 << 19  # scores that are looked at together


class Wanted(NamedTuple):
    """Which pairs of anchor and class are candidates.

    Attributes:
        above: Scores have to be above this.
        every_class: Each class of an anchor is a candidate of its own, not the best class alone.
        classes: No other class is one; None for all.
        most: How many are kept.
    """

    above: float
    every_class: bool
    classes: Tensor | None
    most: int


class Candidates(NamedTuple):
    """Pairs of anchor and class, as anchor times number of classes plus class.

    Attributes:
        pair: In the host's order; from the highest score down where there were too many, (N,).
        score: (N,).
        cut: There were too many. Then one more than is kept is here, whose score may be equal to the last one's.
    """

    pair: Tensor
    score: Tensor
    cut: bool


def top_candidates(scores: Tensor, wanted: Wanted) -> Candidates:
    """The candidates among `scores` (classes, A) of an image."""
    best = scores.amax(0)
    anchors = _above(best, wanted.above)
    least = _surely_below(best[anchors], wanted)
    if least is not None:
        anchors = _above(best, least)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    held = [(_none(torch.int64, scores), _none(dtype, scores))]
    for part in _parts(anchors, scores):
        held.append(_pairs(scores, part if least is None else part[best[part] > least], wanted, least))
        if sum(pair.shape[0] for pair, _ in held) > 2 * wanted.most:
            held = [_highest(*_joined(held), wanted.most + 1)]
            least = float(held[0][1][-1])  # an equal one that follows is no longer among the first
    pair, score = _joined(held)
    if pair.shape[0] <= wanted.most:
        return Candidates(pair, score, cut=False)
    return Candidates(*_highest(pair, score, wanted.most + 1), cut=True)


def _surely_below(best: Tensor, wanted: Wanted) -> float | None:
    """A score that more candidates than are kept are above, given the `best` scores of anchors (N,) that have one; None
    where there may be none."""
    if wanted.classes is not None or best.shape[0] <= wanted.most:
        return None
    below = best[best < best.topk(wanted.most + 1).values[-1]]
    return float(below.max()) if below.shape[0] else None


def in_full_order(scores: Tensor, wanted: Wanted) -> Tensor:
    """The pairs that `torch.argsort` of all candidates' scores puts first, in its order (rule 2)."""
    parts = _parts(_above(scores.amax(0), wanted.above), scores)
    every = torch.cat([_pairs(scores, part, wanted, None)[1] for part in parts])
    order = every.argsort(descending=True)[: wanted.most].clone()
    del every
    found, before = torch.empty_like(order), 0
    for part in parts:
        pair = _pairs(scores, part, wanted, None)[0]
        here = ((order >= before) & (order < before + pair.shape[0])).nonzero().squeeze(1)
        found[here] = pair[order[here] - before]
        before += pair.shape[0]
    return found


def _above(best: Tensor, least: float) -> Tensor:
    """Anchors whose best score is above that."""
    return (best > least).nonzero().squeeze(1)


def _parts(anchors: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
    return torch.split(anchors, max(AT_ONCE // scores.shape[0], 1))


def _pairs(scores: Tensor, anchor: Tensor, wanted: Wanted, least: float | None) -> tuple[Tensor, Tensor]:
    """The candidates among these anchors, and their scores; above `least` where that is given."""
    table = scores.index_select(1, anchor)
    above = wanted.above if least is None else least
    if wanted.every_class:
        place, label = (table > above).T.nonzero(as_tuple=True)
    else:
        highest, label = table.max(0)  # the first of equal ones
        place = (highest > above).nonzero().squeeze(1)
        label = label[place]
    if wanted.classes is not None:
        kept = (label.unsqueeze(1) == wanted.classes).any(1)
        place, label = place[kept], label[kept]
    return anchor[place] * scores.shape[0] + label, table[label, place]


def _none(dtype: torch.dtype, near: Tensor) -> Tensor:
    return torch.zeros(0, dtype=dtype, device=near.device)


def _joined(held: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.cat([pair for pair, _ in held]), torch.cat([score for _, score in held])


def _highest(pair: Tensor, score: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest, of equal ones the first."""
    order = score.sort(stable=True, descending=True).indices[:count]
    return pair[order], score[order]
