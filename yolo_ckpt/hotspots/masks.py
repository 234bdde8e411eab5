"""The mask loss of segmentation, on the pixels inside boxes and a few objects at a time.

The host computes every positive anchor's mask on the whole map, four times over, and crops it to the object's box
afterwards: 4 GiB for 1,000 positives on 512 x 512. Here:

1. Positives of one object share its box and its true mask. They are taken together, on the pixels of the box alone,
   a bounded number of pixels at a time.
2. The loss is a plain sum, so its gradients are computed along with it: nothing but them is kept for backward.
3. Sums are in fp32 and run in another order than the host's: value and gradients differ by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from yolo_ckpt.hotspots.rounding import MASK_LOSS, note
from yolo_ckpt.remat import is_on_cpu

SMALL = 1 << 22  # pixels of all positives of an image together up to which the host's way is taken
PIXELS_ON_CPU = 1 << 16  # of all positives together, at a time: small parts stay in the processor's cache
PIXELS_ON_CUDA = 1 << 20  # larger parts keep the device busy
IN_SIMULATION = 10  # positives of one object


class BoundedMaskLoss:
    """A segmentation loss that never holds the masks of all positives."""

    overlap: bool

    def calculate_segmentation_loss(
        self,
        fg_mask: Tensor,
        masks: Tensor,
        target_gt_idx: Tensor,
        target_bboxes: Tensor,
        batch_idx: Tensor,
        proto: Tensor,
        pred_masks: Tensor,
        imgsz: Tensor,
    ) -> Tensor:
        """What the original's method does, up to rounding: the mean over all positives (B, A) of the loss of their
        masks, `pred_masks` (B, A, K) times `proto` (B, K, H, W). Where an image's masks are small all together, it is
        the original that does it, with its bits."""
        given = (fg_mask, masks, target_gt_idx, target_bboxes, batch_idx, proto, pred_masks, imgsz)
        most = max(row.nonzero().shape[0] for row in fg_mask)
        if most * proto.shape[-2] * proto.shape[-1] <= SMALL:
            return super().calculate_segmentation_loss(*given)  # type: ignore[misc,no-any-return]
        note(self, MASK_LOSS)
        return mask_loss(*given, overlap=self.overlap)


def mask_loss(
    fg_mask: Tensor,
    masks: Tensor,
    target_gt_idx: Tensor,
    target_bboxes: Tensor,
    batch_idx: Tensor,
    proto: Tensor,
    pred_masks: Tensor,
    imgsz: Tensor,
    *,
    overlap: bool,
) -> Tensor:
    """The loss; `masks` are (B, H, W) with numbered objects where they `overlap`, else (objects, H, W)."""
    height, width = proto.shape[-2:]
    boxes = target_bboxes / imgsz[[1, 0, 1, 0]]
    areas = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    boxes = boxes * torch.tensor([width, height, width, height], device=proto.device)
    total: Any = 0
    for i, positive in enumerate(fg_mask):
        where = positive.nonzero().squeeze(1)
        if not where.shape[0]:
            total = total + (proto * 0).sum() + (pred_masks * 0).sum()  # every parameter needs a gradient under DDP
            continue
        objects, order = target_gt_idx[i][where].sort(stable=True)
        where = where[order]
        truth = _Truth(masks[i], None) if overlap else _Truth(masks, (batch_idx.view(-1) == i).nonzero().squeeze(1))
        groups = _groups(objects, boxes[i][where], height, width)
        weight = 1 / (areas[i][where] * (height * width))
        total = total + _SumOfMasks.apply(pred_masks[i][where], proto[i], weight, truth, groups)
    return total / fg_mask.sum()  # type: ignore[no-any-return]


class _Group(NamedTuple):
    """Positives `first` to `last` (exclusive) of one object, and the pixels inside its box."""

    first: int
    last: int
    item: int
    top: int
    bottom: int
    left: int
    right: int


class _Truth(NamedTuple):
    """True masks of an image: one map of numbered objects (H, W), or where the objects' own maps are among many."""

    masks: Tensor
    places: Tensor | None

    def part(self, item: int, rows: slice, columns: slice) -> Tensor:
        """The mask of object `item` in a window, as numbers 0 and 1."""
        if self.places is None:
            return (self.masks[rows, columns] == item + 1).float()
        return self.masks[self.places[item : item + 1].squeeze(0), rows, columns].float()


def _groups(objects: Tensor, boxes: Tensor, height: int, width: int) -> list[_Group]:
    """Positives by object, given the object (N,) of each in order and its box (N, 4) in pixels."""
    if objects.is_meta:
        return [_Group(0, min(IN_SIMULATION, objects.shape[0]), 0, 0, height, 0, width)]
    items, counts = objects.unique_consecutive(return_counts=True)
    last = counts.cumsum(0)
    limits = boxes[last - 1].ceil().clamp(min=0).minimum(boxes.new_tensor([width, height, width, height])).long()
    rows = torch.stack([last - counts, last, items], 1)
    return [
        _Group(first, end, item, top, bottom, left, right)
        for first, end, item, left, top, right, bottom in torch.cat([rows, limits], 1).tolist()
    ]


class _SumOfMasks(torch.autograd.Function):
    """The weighted sum of the losses of all positives of an image."""

    @staticmethod
    def forward(
        ctx: Any, pred: Tensor, proto: Tensor, weight: Tensor, truth: _Truth, groups: Sequence[_Group]
    ) -> Tensor:
        """`pred` (N, K), `proto` (K, H, W), `weight` (N,) to a number."""
        total = weight.new_zeros((), dtype=torch.float32)
        of_pred, of_proto = (torch.zeros_like(t, dtype=torch.float32) for t in (pred, proto))
        for group in groups:
            _add(group, pred, proto, weight, truth, total, of_pred, of_proto)
        ctx.save_for_backward(of_pred.to(pred.dtype), of_proto.to(proto.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Gradients of `pred` and `proto`."""
        of_pred, of_proto = ctx.saved_tensors
        return grad * of_pred, grad * of_proto, None, None, None


def _add(
    group: _Group, pred: Tensor, proto: Tensor, weight: Tensor, truth: _Truth, total: Tensor, of_pred: Tensor,
    of_proto: Tensor,
) -> None:  # fmt: skip
    """Add one object's part to the sum and to its gradients."""
    these = slice(group.first, group.last)
    coefficients, weights = pred[these], weight[these, None].float()
    columns = slice(group.left, group.right)
    count = coefficients.shape[0] * max(group.right - group.left, 1)
    each = max((PIXELS_ON_CPU if is_on_cpu(proto) else PIXELS_ON_CUDA) // count, 1)
    for top in range(group.top, group.bottom, each):
        rows = slice(top, min(top + each, group.bottom))
        window = proto[:, rows, columns]
        flat = window.reshape(window.shape[0], -1)
        logits = (coefficients @ flat).float()
        target = truth.part(group.item, rows, columns).reshape(1, -1).expand_as(logits)
        total += (functional.binary_cross_entropy_with_logits(logits, target, reduction="none") * weights).sum()
        slope = logits.sigmoid_().sub_(target).mul_(weights).to(flat.dtype)
        of_pred[these] += slope @ flat.T
        of_proto[:, rows, columns] += (coefficients.T @ slope).view_as(window)
