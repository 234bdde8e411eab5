"""Non-maximum suppression that stops as soon as it has found what is asked for.

Whether a candidate is kept depends on those with higher scores alone. So the first `most` that are kept among the
highest candidates are the first that are kept among all, and the rest need not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

FIRST = 2048  # upright boxes that are looked at first
GROWTH = 4  # how many times as many next: all tries together cost little more than the last
WIDTH = 1024  # turned boxes that are looked at together, at most
PAIRS_AT_ONCE = 1 << 19  # of turned boxes; a dozen numbers each

Suppress = Callable[[Tensor, Tensor, float], Tensor]  # boxes, scores, threshold: kept ones by falling score, stable
Overlap = Callable[[Tensor, Tensor], Tensor]
Compare = Callable[[Tensor, float], Tensor]


def keep_upright(boxes: Tensor, scores: Tensor, threshold: float, most: int, suppress: Suppress) -> Tensor:
    """The first `most` indices that `suppress` keeps of `boxes` (N, 4)."""
    count = max(FIRST, GROWTH * most)
    if boxes.shape[0] <= count:
        return suppress(boxes, scores, threshold)[:most]
    order = scores.sort(stable=True, descending=True).indices
    while True:
        some = order[:count]
        kept = suppress(boxes[some], scores[some], threshold)
        if kept.shape[0] >= most or count >= boxes.shape[0]:
            return some[kept[:most]]
        count *= GROWTH


def keep_turned(boxes: Tensor, scores: Tensor, threshold: float, most: int, overlap: Overlap, over: Compare) -> Tensor:
    """The first `most` indices that Fast NMS (Bolya et al. 2019, https://arxiv.org/abs/1904.02689) keeps of `boxes`
    (N, 5): those that none of higher score overlaps so that it is `over` the threshold.

    The host makes the table of all pairs, a dozen times over: 40 GiB for 30,000 boxes.
    """
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    kept, found, start = [order[:0]], 0, 0
    while start < boxes.shape[0] and found < most:
        end = start + max(min(PAIRS_AT_ONCE // (start + WIDTH), WIDTH), 1)
        table = overlap(boxes[:end], boxes[start:end]).triu_(1 - start)
        kept.append(order[start:end][~over(table, threshold).any(0)])
        found, start = found + kept[-1].shape[0], end
    return torch.cat(kept)[:most]
