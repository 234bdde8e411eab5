"""Overlaps of true and predicted masks in the assigner of YOLO26 segmentation, inside the predicted boxes.

The host decodes the masks of all candidates on the whole map and multiplies them with all true masks of an image. Here
the candidates of one object are decoded together, on the window that holds their boxes. Intersections and areas are
whole numbers, so the overlaps are the host's, bit for bit, as long as a product over a window rounds as that over
the map does; a product with a single row rounds otherwise (on the CPU), and gets a second one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.hotspots.toprows import top_of_rows
from yolo_ckpt.hotspots.truemasks import TrueMasks

PIXELS_AT_ONCE = 1 << 20  # of all candidates of an object together
CANDIDATES = 3  # times topk: whose masks are looked at


class BoundedMaskOverlap:
    """An assigner whose overlap is the mean of those of boxes and of masks."""

    alpha: float
    beta: float
    eps: float
    topk: int
    n_max_boxes: int
    iou_calculation: Any

    def pair_overlaps(
        self,
        indices: tuple[Tensor, Tensor, Tensor],
        gt_bboxes: Tensor,
        pd_bboxes: Tensor,
        scores: Tensor,
        labels: Tensor,
        pd_coef: Tensor,
        mask_scale: Tensor,
        proto: Tensor,
        gt_masks: Tensor | TrueMasks,
    ) -> Tensor:
        """What the original's method does, for pairs (N,) in the order of images, objects, anchors."""
        image, item, anchor = indices
        overlap: Tensor = self.iou_calculation(gt_bboxes[image, item], pd_bboxes[image, anchor])
        score = scores[image, anchor, labels[image, item, 0].long()]
        metric = score.pow(self.alpha) * overlap.pow(self.beta) + self.eps
        row = image * self.n_max_boxes + item
        rows = gt_bboxes.shape[0] * self.n_max_boxes
        taken = top_of_rows(metric, row, anchor, rows, CANDIDATES * self.topk).entry.flatten()
        taken = taken[taken >= 0].sort().values
        boxes = pd_bboxes[image[taken], anchor[taken]] * mask_scale[image[taken]]
        of_masks = torch.zeros_like(overlap)
        of_masks[taken] = mask_overlaps(
            image[taken], item[taken], pd_coef[image[taken], anchor[taken]], boxes, proto, gt_masks
        )
        return (overlap + of_masks) / 2


def mask_overlaps(
    image: Tensor, item: Tensor, coefficients: Tensor, boxes: Tensor, proto: Tensor, masks: Tensor | TrueMasks
) -> Tensor:
    """Intersection over union of predicted masks, `coefficients` (N, K) times `proto` (B, K, H, W) cropped to `boxes`
    (N, 4), with the true `masks` (B, G, H, W) of objects `item` (N,) of images `image` (N,), in order."""
    height, width = proto.shape[-2:]
    corners = boxes.ceil().clamp(min=0).minimum(boxes.new_tensor([width, height, width, height])).long()
    found = boxes.new_zeros(boxes.shape[0], dtype=torch.float32)
    for first, last, b, g, window in _groups(image, item, corners, height, width):
        these = slice(first, last)
        mask = masks.one(b, g) if isinstance(masks, TrueMasks) else masks[b, g]
        inter, area = _counts(coefficients[these], proto[b], mask, corners[these], window)
        union = mask.sum(dtype=torch.float32) + area - inter
        found[these] = inter / union.clamp(min=1)
    return found


def _groups(
    image: Tensor, item: Tensor, corners: Tensor, height: int, width: int
) -> list[tuple[int, int, int, int, tuple[int, int, int, int]]]:
    """Runs of candidates of one object: first, last (exclusive), image, object, and the window (left, top, right,
    bottom) around all their boxes."""
    if image.is_meta:
        return [(0, min(image.shape[0], 32), 0, 0, (0, 0, width, height))]
    if not image.shape[0]:
        return []
    pairs, which, counts = torch.stack([image, item], 1).unique_consecutive(
        dim=0, return_inverse=True, return_counts=True
    )
    last, where = counts.cumsum(0), which[:, None].expand(-1, 2)
    near = corners.new_full((len(pairs), 2), max(height, width)).scatter_reduce_(0, where, corners[:, :2], "amin")
    far = corners.new_zeros(len(pairs), 2).scatter_reduce_(0, where, corners[:, 2:], "amax")
    table = torch.cat([torch.stack([last - counts, last], 1), pairs, near, far], 1)
    return [(first, end, b, g, (x1, y1, x2, y2)) for first, end, b, g, x1, y1, x2, y2 in table.tolist()]


def _counts(
    coefficients: Tensor, proto: Tensor, mask: Tensor, corners: Tensor, window: tuple[int, int, int, int]
) -> tuple[Tensor, Tensor]:
    """Pixels of each predicted mask (N,) that the true `mask` (H, W) shares, and all its pixels."""
    left, top, right, bottom = window
    count = coefficients.shape[0]
    factors = coefficients if count > 1 else coefficients.expand(2, -1)
    inter, area = (coefficients.new_zeros(count, dtype=torch.int64) for _ in range(2))
    across = torch.arange(left, max(right, left), device=proto.device)
    columns = (across >= corners[:, :1]) & (across < corners[:, 2:3])
    each = max(PIXELS_AT_ONCE // (factors.shape[0] * max(right - left, 1)), 1)
    for start in range(top, bottom, each):
        end = min(start + each, bottom)
        part = proto[:, start:end, left:right]
        inside = ((factors @ part.reshape(part.shape[0], -1))[:count] > 0).view(count, end - start, -1)
        down = torch.arange(start, end, device=proto.device)
        inside &= columns.unsqueeze(1)
        inside &= ((down >= corners[:, 1:2]) & (down < corners[:, 3:4])).unsqueeze(2)
        area += inside.sum((1, 2))
        inter += (inside & mask[start:end, left:right]).sum((1, 2))
    return inter.float(), area
