"""The detections of an image as the host's `non_max_suppression` gives them, in bounded memory.

1. Candidates are chosen a part at a time (`topcandidates.py`), and only chosen ones become rows.
2. Suppression stops at the last detection that is asked for (`suppression.py`).
3. The order of candidates with equal scores is that of the host's sort. Where that is not a stable one, the scores
   that could have decided are looked at afterwards: if no two are equal, every sort gives this order, and if some are,
   all scores are sorted by the host's own call.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from yolo_ckpt.hotspots.suppression import Compare, Overlap, Suppress, keep_turned, keep_upright
from yolo_ckpt.hotspots.topcandidates import Candidates, Wanted, in_full_order, top_candidates

PROBED = (1 << 13, 1 << 14, 1 << 17)  # lengths at which it is tried whether a device's sort is stable


class Steps(NamedTuple):
    """What the host does with rows.

    Attributes:
        suppress: NMS of upright boxes.
        overlap: Of turned boxes with each other.
        over: Whether an overlap of turned boxes suppresses at a threshold.
    """

    suppress: Suppress
    overlap: Overlap
    over: Compare


class Request(NamedTuple):
    """What the host's function is asked for, without what it has no bounded way for."""

    conf_thres: float
    iou_thres: float
    classes: list[int] | None
    agnostic: bool
    multi_label: bool
    max_det: int
    nc: int
    max_time_img: float
    max_nms: int
    max_wh: int
    rotated: bool


def detections(prediction: Tensor, request: Request, steps: Steps, late: Callable[[float], None]) -> list[Tensor]:
    """Rows (N, 6 + extra) for each image of `prediction` (B, 4 + classes + extra, A). As in the host, images after the
    one that goes over the time for a batch get none, and `late` is told that time in seconds."""
    start, limit = time.time(), 2.0 + request.max_time_img * prediction.shape[0]
    classes = request.nc or prediction.shape[1] - 4
    nothing = torch.zeros((0, prediction.shape[1] - classes + 2), device=prediction.device)
    found = [nothing] * prediction.shape[0]
    for i, image in enumerate(prediction):
        rows = _of_image(image, classes, request, steps)
        if rows is None:
            continue
        found[i] = rows
        if time.time() - start > limit:
            late(limit)
            break
    return found


def _of_image(image: Tensor, classes: int, request: Request, steps: Steps) -> Tensor | None:
    """The detections in one `image` (4 + classes + extra, A); None without any candidate."""
    only = None if request.classes is None else torch.tensor(request.classes, device=image.device)
    wanted = Wanted(request.conf_thres, request.multi_label, only, request.max_nms)
    scores = image[4 : 4 + classes]
    candidates = top_candidates(scores, wanted)
    if not candidates.pair.shape[0]:
        return None
    rows = _rows(image, candidates.pair[: request.max_nms], classes, turned=request.rotated)
    kept = _keep(rows, request, steps)
    if candidates.cut and not _is_sure(candidates, kept, request):
        rows = _rows(image, in_full_order(scores, wanted), classes, turned=request.rotated)
        kept = _keep(rows, request, steps)
    return rows[kept]


def _rows(image: Tensor, pair: Tensor, classes: int, *, turned: bool) -> Tensor:
    """Box, score, class and what else there is, for each pair of anchor and class (N,)."""
    anchor, label = pair // classes, pair % classes
    box = image[:4, anchor].T
    if not turned:
        half = box[:, 2:] / 2
        box = torch.cat([box[:, :2] - half, box[:, :2] + half], 1)
    score = image[4 + label, anchor].unsqueeze(1)
    return torch.cat([box, score, label.unsqueeze(1).float(), image[4 + classes :, anchor].T], 1)


def _keep(rows: Tensor, request: Request, steps: Steps) -> Tensor:
    """Which rows are detections, in order."""
    offset = rows[:, 5:6] * (0 if request.agnostic else request.max_wh)
    if request.rotated:
        boxes = torch.cat([rows[:, :2] + offset, rows[:, 2:4], rows[:, -1:]], -1)
        return keep_turned(boxes, rows[:, 4], request.iou_thres, request.max_det, steps.overlap, steps.over)
    return keep_upright(rows[:, :4] + offset, rows[:, 4], request.iou_thres, request.max_det, steps.suppress)


def _is_sure(candidates: Candidates, kept: Tensor, request: Request) -> bool:
    """True where the host's sort puts the candidates that decide in this order (rule 3)."""
    if request.max_nms >= PROBED[0] and sorts_stably(candidates.score.device):
        return True
    complete = kept.shape[0] >= request.max_det
    last = int(kept.max()) if complete and kept.shape[0] else request.max_nms - 1
    decided = candidates.score[: last + 2]
    return bool((decided[1:] < decided[:-1]).all())


@functools.cache
def sorts_stably(device: torch.device) -> bool:
    """Whether `torch.argsort` of a long vector is stable on `device`: found by trying. On CUDA it is, from 4,096
    values on (radix sort); on CPUs with AVX2 or AVX-512 it is not (since torch 2.6)."""
    return all(_is_stable(torch.arange(n, device=device).mul_(7919).remainder_(97).float()) for n in PROBED)


def _is_stable(values: Tensor) -> bool:
    return torch.equal(values.argsort(descending=True), values.argsort(descending=True, stable=True))
