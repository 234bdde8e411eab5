"""How many anchors a simulated loss will work with: those inside objects, and those given to objects."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from yolo_ckpt.hotspots import parts_of

TOPK = 10  # anchors that the host's assigner gives an object at most


class Masks:
    """How many elements of the masks in the host's detection losses are true.

    Masks over anchors are told by their size: anchors inside objects (B, objects, anchors), anchors given to objects
    (B, anchors) or (anchors,). Masks of other sizes are all true. An object is given as many anchors as it may have, no
    anchor twice: a trained model comes close to that, one at its start may stay below.
    """

    def __init__(self, model: nn.Module, data: dict[str, Tensor]) -> None:
        self._strides = torch.tensor(sorted(float(s) for s in getattr(model, "stride", ())))
        self._batch, _, height, width = data["img"].shape
        self._levels = [_Level(s, math.ceil(height / s), math.ceil(width / s)) for s in self._strides.tolist()]
        self._anchors = sum(level.rows * level.columns for level in self._levels)
        boxes = data.get("bboxes", torch.zeros(0, 4))
        self._image = data.get("batch_idx", torch.zeros(len(boxes))).long()
        least = self._strides[min(1, len(self._strides) - 1)] if self._levels else 1.0
        self._spans = [_span(boxes, level, least, height, width) for level in self._levels]
        self._sides = (boxes[:, 2:4] * torch.tensor([width, height])).prod(1).sqrt()
        self._inside, self._given = 1, 1
        if self._levels:
            self._count(TOPK, None)

    def follow(self, criterion: Any) -> None:
        """Ask each assigner of `criterion`, when it runs, how many anchors it gives an object at most."""
        for loss in parts_of(criterion):
            assigner = getattr(loss, "assigner", None)
            if isinstance(assigner, nn.Module):
                assigner.register_forward_pre_hook(self._asked)

    def _asked(self, assigner: Any, _: Any) -> None:
        most = int(getattr(assigner, "topk2", None) or assigner.topk)
        self._count(most, getattr(assigner, "level_range", None))

    def _count(self, most: int, level_range: tuple[float, float] | None) -> None:
        """Count with `most` anchors for an object, on the levels that `level_range`, sides in strides, allows."""
        counts = torch.stack([span.inside() for span in self._spans])
        allowed = torch.ones_like(counts, dtype=torch.bool)
        if level_range is not None:
            allowed = self._allowed(*level_range)
            allowed |= (counts * allowed).sum(0) == 0  # an object without anchors has those of all levels
        counts = counts * allowed
        covered = sum(
            span.covered(level, self._image[on], self._batch, on)
            for span, level, on in zip(self._spans, self._levels, allowed, strict=True)
        )
        self._inside = max(int(counts.sum()), 1)
        self._given = max(min(int(counts.sum(0).clamp_max(most).sum()), covered), 1)

    def _allowed(self, low: float, high: float) -> Tensor:
        strides = self._strides[:, None]
        return ((self._sides >= low * strides) | (strides == strides.min())) & (
            (self._sides <= high * strides) | (strides == strides.max())
        )

    def count_true(self, shape: torch.Size) -> int:
        """The estimate for a mask of this size."""
        if shape[-1] != self._anchors or not self._anchors:
            return math.prod(shape)
        if len(shape) == 3:
            return self._inside
        return self._given if len(shape) == 2 else max(self._given // self._batch, 1)


class _Level(NamedTuple):
    """Anchors of one stride: `rows` by `columns` centres."""

    stride: float
    rows: int
    columns: int


class _Span(NamedTuple):
    """The first and the last row and column of centres in each box, (N,) each; the last before the first where there
    are none."""

    top: Tensor
    bottom: Tensor
    left: Tensor
    right: Tensor

    def inside(self) -> Tensor:
        """Centres in each box, (N,)."""
        return (self.bottom - self.top + 1).clamp_min(0) * (self.right - self.left + 1).clamp_min(0)

    def covered(self, level: _Level, image: Tensor, images: int, on: Tensor) -> int:
        """Centres of all images that are in any of the boxes chosen by the mask `on` (N,); `image` is that of each."""
        top, bottom, left, right = (side[on].long() for side in self)
        real = (bottom >= top) & (right >= left)
        changes = torch.zeros(images, level.rows + 1, level.columns + 1, dtype=torch.int64)
        for row, column, sign in (
            (top, left, 1),
            (top, right + 1, -1),
            (bottom + 1, left, -1),
            (bottom + 1, right + 1, 1),
        ):
            where = (image[real], row[real], column[real])
            changes.index_put_(where, torch.full_like(where[0], sign), accumulate=True)
        return int((changes.cumsum(1).cumsum(2) > 0).sum())


def _span(boxes: Tensor, level: _Level, least: Tensor | float, height: int, width: int) -> _Span:
    """Rows and columns of `level` inside `boxes` (N, 4 or 5), relative centres and sizes, of images of this size. The
    assigner takes sides smaller than `least` to be as large."""
    rows = _centres_between(boxes[:, 1], boxes[:, 3], least, height, level.stride, level.rows)
    columns = _centres_between(boxes[:, 0], boxes[:, 2], least, width, level.stride, level.columns)
    return _Span(*rows, *columns)


def _centres_between(
    centre: Tensor, side: Tensor, least: Tensor | float, size: int, stride: float, count: int
) -> tuple[Tensor, Tensor]:
    """The first and the last of `count` anchor centres in each interval, given by its relative centre and side."""
    half = torch.clamp(side * size, min=least) / 2 / stride
    middle = centre * size / stride - 0.5  # anchor i is at (i + 0.5) * stride
    first, last = (middle - half).floor() + 1, (middle + half).ceil() - 1
    return first.clamp_min(0), last.clamp_max(count - 1)
