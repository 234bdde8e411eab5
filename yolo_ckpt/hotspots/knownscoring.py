"""Telling the host's functions of validation by what they give, as `known.py` tells its losses: the same made problems
are given to them and to ours, and only where every output is equal to the last bit does ours take over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from yolo_ckpt.hotspots.maskiou import ImageMasks, mask_overlaps, predicted_masks
from yolo_ckpt.hotspots.nms import Request, Steps, detections
from yolo_ckpt.hotspots.suppression import Overlap, Suppress

ANCHORS, SIDE = 60, 32


@functools.cache
def known_steps(original: Callable[..., Any], suppress: Suppress, overlap: Overlap) -> Steps | None:
    """The steps with which `detections` gives what `original` gives; None where it does not. Versions of the host
    differ in whether an overlap equal to the threshold suppresses."""
    with torch.no_grad():
        ways = (Steps(suppress, overlap, over) for over in (torch.gt, torch.ge))
        return next((way for way in ways if all(_detects_alike(original, way, *p) for p in _problems(overlap))), None)


def _detects_alike(original: Callable[..., Any], steps: Steps, prediction: Tensor, request: Request) -> bool:
    expected = original(prediction.clone(), **request._asdict())
    found = detections(prediction, request, steps, late=lambda _: None)
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def _problems(overlap: Overlap) -> Iterator[tuple[Tensor, Request]]:
    """Predictions with equal scores and equal boxes, and what is asked of them."""
    g = torch.Generator().manual_seed(0)
    for i in range(12):
        classes, extra, turned = (3, 1)[i % 2], (0, 4, 1)[i % 3], i % 3 == 2
        centre, sides = torch.rand(2, 2, ANCHORS, generator=g) * 20, torch.rand(2, 2, ANCHORS, generator=g) * 9
        scores = (torch.rand(2, classes, ANCHORS, generator=g) * (10, 1000)[i // 6]).round() / (10, 1000)[i // 6]
        prediction = torch.cat([centre, sides, scores, torch.rand(2, extra, ANCHORS, generator=g)], 1)
        prediction[:, :, 1::5] = prediction[:, :, ::5]
        threshold = 0.5
        if turned:
            boxes = prediction[0, [0, 1, 2, 3, -1]].T.contiguous()
            threshold = min(float(overlap(boxes[:1], boxes[:1])), 1.0) if i < 6 else threshold
        yield prediction, Request(
            conf_thres=0.3, iou_thres=threshold, classes=None, agnostic=i % 4 == 3, multi_label=i % 4 < 3,
            max_det=(5, 99)[i // 6], nc=classes, max_time_img=9.0, max_nms=(20, 300)[i % 5 > 1], max_wh=7680,
            rotated=turned,
        )  # fmt: skip


@functools.cache
def masks_are_known(process: Callable[..., Any], compare: Callable[..., Any], device: torch.device) -> bool:
    """True where `predicted_masks` and `mask_overlaps` give what `process` and `compare` give, and where products of
    strips on `device` have the bits of the whole product."""
    with torch.no_grad():
        return _products_alike(device) and _masks_alike(process, compare)


def _products_alike(device: torch.device) -> bool:
    for count in (2, 37, 300):
        factors = torch.arange(count * 32, device=device).view(count, 32).float().sin()
        maps = torch.arange(32 * 64 * SIDE, device=device).view(32, -1).float().cos()
        parts = [factors @ part for part in maps.view(32, 64, SIDE).split(7, 1) for part in (part.reshape(32, -1),)]
        if not torch.equal(torch.cat(parts, 1), factors @ maps):
            return False
    return True


def _masks_alike(process: Callable[..., Any], compare: Callable[..., Any]) -> bool:
    g = torch.Generator().manual_seed(0)
    shape = (4 * SIDE, 8 * SIDE)
    proto, coefficients = torch.randn(8, SIDE, 2 * SIDE, generator=g), torch.randn(7, 8, generator=g)
    corners = torch.rand(7, 2, 2, generator=g).sort(1).values * torch.tensor([shape[1], shape[0]])
    expected = process(proto, coefficients, corners.flatten(1), shape=shape)
    found = predicted_masks(proto, coefficients, corners.flatten(1), shape)
    if found.dtype != expected.dtype or not torch.equal(found, expected):
        return False
    expected[0] = 0
    expected[0, 0, 0] = 1  # as large as the last object: the smallest union shows what is added to it
    for side in (SIDE, SIDE // 2):
        numbered = torch.randint(5, (1, side, 2 * side), generator=g).float()
        numbered[0, 0, 0] = 5
        true = ImageMasks.of(numbered, 0, torch.zeros(5), 5, numbered=True)
        dense = (numbered == torch.arange(1, 6).view(5, 1, 1)).float()
        dense = functional.interpolate(dense[None], (SIDE, 2 * SIDE), mode="bilinear", align_corners=False)[0].gt_(0.5)
        if not torch.equal(compare(dense.flatten(1), expected.flatten(1).float()), mask_overlaps(true, expected)):
            return False
    return True
