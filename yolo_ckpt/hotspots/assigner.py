"""Task-aligned assignment of anchors to boxes, on the pairs that can be assigned.

The host's assigner (TOOD, Feng et al. 2021, https://arxiv.org/abs/2108.07755) makes about ten tables of boxes by
anchors, although only anchors inside a box can be given to it: 14 GiB at 4096 px with 3,000 boxes. Here every table is
a list of pairs, or has one entry per anchor. The results are the host's, bit for bit:

1. Metrics are computed by the host's own functions on the pairs in the host's order, in one vector where rounding
   depends on the position in it (`pow` on the CPU).
2. `torch.topk` chooses among equals as it does on the host's rows (`toprows.py`).
3. An anchor in several boxes goes to the one that it overlaps most, the first of equals, also if that box did not ask
   for it; and to the image's first box where it overlaps none.
4. Values that are not finite take the host's way: there a single one reaches every entry of its row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from yolo_ckpt.hotspots.candidates import Pairs, candidate_pairs
from yolo_ckpt.hotspots.maskoverlap import CANDIDATES, BoundedMaskOverlap
from yolo_ckpt.hotspots.toprows import PLACES, top_of_rows
from yolo_ckpt.hotspots.truemasks import TrueMasks

MASKS = "gt_masks"  # the host's name for true masks, where an assigner compares them
SMALL = 1 << 18  # boxes times anchors up to which the host's tables are small and fast
AT_ONCE = 1 << 20  # pairs whose overlap is computed together
KEYPOINTS_AT_ONCE = 1 << 15  # where an overlap is one of keypoints, which are many for each pair

Assigned = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class BoundedAssigner:
    """An assigner that works on pairs wherever the host's tables would be large."""

    bs: int
    n_max_boxes: int
    topk: int
    topk2: int

    def _forward(
        self,
        pd_scores: Tensor,
        pd_bboxes: Tensor,
        anc_points: Tensor,
        gt_labels: Tensor,
        gt_bboxes: Tensor,
        mask_gt: Tensor,
        **extra: Any,
    ) -> Assigned:
        """What the host's assigner puts out: labels (B, A), boxes (B, A, 4 or 5), scores (B, A, classes), a mask of
        given anchors (B, A), and the box that each is given to (B, A)."""
        given = (pd_scores, pd_bboxes, anc_points, gt_labels, gt_bboxes, mask_gt)
        if _is_large(anc_points, gt_bboxes, extra) and can_bound(self, anc_points):
            assigned = assign(self, *given, **extra)
            if assigned is not None:
                return assigned
        if isinstance(extra.get(MASKS), TrueMasks):
            extra[MASKS] = extra[MASKS].dense()
        return super()._forward(*given, **extra)  # type: ignore[misc,no-any-return]


def _is_large(points: Tensor, gt_bboxes: Tensor, extra: dict[str, Any]) -> bool:
    """True where the host's tables are: boxes by anchors, and boxes by all pixels where masks are compared."""
    boxes = gt_bboxes.shape[0] * gt_bboxes.shape[1]
    pixels = extra[MASKS].shape[-1] * extra[MASKS].shape[-2] if MASKS in extra else 0
    return bool(boxes * max(points.shape[0], pixels) > SMALL)


def can_bound(assigner: Any, points: Tensor) -> bool:
    """True where rule 2 holds: known devices, and enough anchors."""
    most = max(assigner.topk, assigner.topk2) * (CANDIDATES if isinstance(assigner, BoundedMaskOverlap) else 1)
    return points.device.type in ("cpu", "cuda", "meta") and points.shape[0] >= PLACES * most


def assign(
    assigner: Any,
    pd_scores: Tensor,
    pd_bboxes: Tensor,
    points: Tensor,
    gt_labels: Tensor,
    gt_bboxes: Tensor,
    mask_gt: Tensor,
    **extra: Any,
) -> Assigned | None:
    """The assignment; None where a metric is not finite (rule 4)."""
    table = _Table.of(candidate_pairs(assigner, points, gt_bboxes, mask_gt), gt_bboxes, points)
    if MASKS in extra:
        extra = {**extra, "scores": pd_scores, "labels": gt_labels}
    overlap = _overlaps(assigner, table, gt_bboxes, pd_bboxes, extra)
    labels = gt_labels[..., 0].long()
    scores = pd_scores[table.image, table.anchor, labels[table.image, table.box]]
    metric = scores.pow(assigner.alpha) * overlap.pow(assigner.beta)
    if not bool(torch.isfinite(metric).all() & torch.isfinite(overlap).all()):
        return None
    holder, taken, mine = _give(assigner, table, metric, overlap)
    score = _score(assigner, table, metric, overlap, mine)
    shape = (gt_bboxes.shape[0], points.shape[0])
    return _targets(assigner, holder.view(shape), taken.view(shape), score.view(shape), labels, gt_bboxes)


class _Table(NamedTuple):
    """The pairs, all of one length, and the sizes of the tables that they stand for."""

    row: Tensor
    image: Tensor
    box: Tensor
    anchor: Tensor
    cell: Tensor
    boxes: int
    rows: int
    anchors: int
    cells: int

    @classmethod
    def of(cls, pairs: Pairs, gt_bboxes: Tensor, points: Tensor) -> _Table:
        images, boxes, anchors = gt_bboxes.shape[0], gt_bboxes.shape[1], points.shape[0]
        image = pairs.row // boxes
        cell = image * anchors + pairs.anchor
        return cls(
            pairs.row, image, pairs.row % boxes, pairs.anchor, cell, boxes, images * boxes, anchors, images * anchors
        )


def _overlaps(assigner: Any, table: _Table, gt_bboxes: Tensor, pd_bboxes: Tensor, extra: dict[str, Any]) -> Tensor:
    """The overlap of every pair (N,). Where masks are compared, all candidates of an object decide whose are."""
    each = max(table.row.shape[0], 1) if MASKS in extra else KEYPOINTS_AT_ONCE if extra else AT_ONCE
    parts = zip(*(t.split(each) for t in (table.image, table.box, table.anchor)), strict=True)
    return torch.cat([assigner.pair_overlaps(part, gt_bboxes, pd_bboxes, **extra) for part in parts])


def _give(assigner: Any, table: _Table, metric: Tensor, overlap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For every anchor of every image the box that holds it, and whether one does; for every pair, whether it is that
    of an anchor and its holder."""
    top = top_of_rows(metric, table.row, table.anchor, table.rows, assigner.topk)
    row = torch.arange(table.rows, device=metric.device).unsqueeze(1)
    nowhere = table.cells
    cell = torch.where(top.entry >= 0, row // table.boxes * table.anchors + top.place, nowhere).flatten()
    asked = _cells(table, torch.int64).scatter_add_(0, cell, torch.ones_like(cell))[:-1]
    asking = _cells(table, torch.int64).scatter_(0, cell, (row % table.boxes).expand_as(top.place).flatten())[:-1]
    holder = torch.where(asked > 1, _most_overlapping(table, overlap), asking)
    taken = asked > 0
    if assigner.topk2 != assigner.topk:
        mine = taken[table.cell] & (holder[table.cell] == table.box)
        place = top_of_rows(metric * mine, table.row, table.anchor, table.rows, assigner.topk2).place
        cell = row // table.boxes * table.anchors + place
        kept = taken[cell] & (holder[cell] == row % table.boxes)
        cell = torch.where(kept, cell, nowhere).flatten()
        taken = _cells(table, torch.bool).scatter_(0, cell, torch.ones_like(cell, dtype=torch.bool))[:-1]
    mine = taken[table.cell] & (holder[table.cell] == table.box)
    return torch.where(taken, holder, 0), taken, mine


def _cells(table: _Table, dtype: torch.dtype) -> Tensor:
    """A zero for every anchor of every image, and one more for what goes nowhere."""
    return torch.zeros(table.cells + 1, dtype=dtype, device=table.row.device)


def _most_overlapping(table: _Table, overlap: Tensor) -> Tensor:
    """The box that each anchor overlaps most (rule 3)."""
    best = overlap.new_zeros(table.cells).scatter_reduce_(0, table.cell, overlap, "amax")
    is_best = (overlap == best[table.cell]) & (overlap > 0)
    box = torch.where(is_best, table.box, table.boxes)
    first = torch.full((table.cells,), table.boxes, dtype=torch.int64, device=box.device)
    first.scatter_reduce_(0, table.cell, box, "amin")
    return torch.where(first == table.boxes, 0, first)


def _score(assigner: Any, table: _Table, metric: Tensor, overlap: Tensor, mine: Tensor) -> Tensor:
    """The target score of every anchor of every image: its metric, scaled so that the best of a box has the box's best
    overlap."""
    metric, overlap = metric * mine, overlap * mine
    best_metric = metric.new_zeros(table.rows).scatter_reduce_(0, table.row, metric, "amax")
    best_overlap = overlap.new_zeros(table.rows).scatter_reduce_(0, table.row, overlap, "amax")
    metric.mul_(best_overlap[table.row]).div_(best_metric[table.row] + assigner.eps)
    return metric.new_zeros(table.cells).scatter_reduce_(0, table.cell, metric, "amax")


def _targets(
    assigner: Any, holder: Tensor, taken: Tensor, score: Tensor, labels: Tensor, gt_bboxes: Tensor
) -> Assigned:
    """What the loss compares predictions with."""
    image = torch.arange(holder.shape[0], device=holder.device).unsqueeze(1)
    flat = holder + image * gt_bboxes.shape[1]
    label = labels.flatten()[flat].clamp_(0)
    scores = score.new_zeros(*holder.shape, assigner.num_classes).scatter_(2, label.unsqueeze(-1), score.unsqueeze(-1))
    return label, gt_bboxes.reshape(-1, gt_bboxes.shape[-1])[flat], scores, taken, holder
