"""Masks of a validation against the host's: the same bytes, the same overlaps to the last bit."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from yolo_ckpt.hotspots import maskiou
from yolo_ckpt.hotspots.knownscoring import masks_are_known
from yolo_ckpt.measuring import LiveBytes

ops = pytest.importorskip("ultralytics.utils.ops")
metrics = pytest.importorskip("ultralytics.utils.metrics")

MIB = 1 << 20
CPU = torch.device("cpu")


def detected(count: int, height: int, width: int, seed: int = 0, channels: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Prototypes, coefficients, and boxes, some of which are empty or lie outside."""
    g = torch.Generator().manual_seed(seed)
    centres = (torch.rand(count, 2, generator=g) * 1.2 - 0.1) * torch.tensor([width, height]) * 4
    sides = torch.rand(count, 2, generator=g) * torch.tensor([width, height]) * 2
    boxes = torch.cat([centres - sides / 2, centres + sides / 2], 1)
    boxes[3::7, 2:] = boxes[3::7, :2]
    boxes[:1] = torch.tensor([width, height, 3 * width, 3 * height])
    return torch.randn(channels, height, width, generator=g), torch.randn(count, channels, generator=g), boxes


def numbered(objects: int, height: int, width: int, seed: int = 0, grain: int = 4) -> Tensor:
    """A map of numbered objects (1, H, W), without some of them."""
    g = torch.Generator().manual_seed(seed)
    small = torch.randint(objects + 1, (1, 1, -(-height // grain), -(-width // grain)), generator=g).float()
    return functional.interpolate(small, scale_factor=grain)[0, :, :height, :width].contiguous()


def hosts(masks: Tensor, index: int, image: Tensor, count: int, size: list[int], *, overlap: bool) -> Tensor:
    """True masks as the host's validator makes them."""
    numbers = torch.arange(1, count + 1).view(count, 1, 1)
    true = (masks[index] == numbers).float() if overlap else masks[image == index]
    return functional.interpolate(true[None], size, mode="bilinear", align_corners=False)[0].gt_(0.5)


def small_parts(patch: pytest.MonkeyPatch, r: random.Random) -> None:
    for name in ("AT_ONCE", "MADE_AT_ONCE", "DECODED_ON_CPU"):
        patch.setattr(maskiou, name, r.choice([200, 3000, 1 << 20]))


@pytest.mark.parametrize("count", [1, 2, 3, 33, 120])
@pytest.mark.parametrize("size", [(40, 40), (16, 72), (37, 51)], ids=str)
@pytest.mark.parametrize("at_once", [1, 3000, 1 << 20])
def test_predicted_masks(count: int, size: tuple[int, int], at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maskiou, "DECODED_ON_CPU", at_once)
    proto, coefficients, boxes = detected(count, *size)
    shape = (size[0] * 4, size[1] * 4)
    for given in (proto, proto.half()):
        expected = ops.process_mask(given, coefficients, boxes, shape=shape)
        found = maskiou.predicted_masks(given, coefficients, boxes, shape)
        assert found.dtype == expected.dtype == torch.uint8
        assert torch.equal(found, expected)
    assert 0 < int(found.sum()) < found.numel()


@pytest.mark.parametrize("count", [1, 2, 3, 40])
@pytest.mark.parametrize("size", [(40, 40), (97, 131)], ids=str)
def test_masks_that_hang_on_the_last_bit(count: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Products whose terms cancel: their sign is that of the rounding, and so of how the product is made."""
    if not masks_are_known(ops.process_mask, metrics.mask_iou, CPU):
        pytest.skip("products of strips round otherwise here, and so the host decodes")
    monkeypatch.setattr(maskiou, "DECODED_ON_CPU", 4 * count * size[1])
    proto, coefficients, boxes = detected(count, *size)
    proto[16:], coefficients[:, 16:] = -proto[:16], coefficients[:, :16]
    boxes[:] = torch.tensor([0, 0, size[1] * 4, size[0] * 4])
    shape = (size[0] * 4, size[1] * 4)
    expected = ops.process_mask(proto, coefficients, boxes, shape=shape)
    assert torch.equal(maskiou.predicted_masks(proto, coefficients, boxes, shape), expected)
    assert 0 < int(expected.sum()) < expected.numel()


@pytest.mark.parametrize("count", [3, 8, 19, 27, 40])
@pytest.mark.parametrize("size", [(30, 40), (104, 160)], ids=str)
def test_resized_masks_that_hang_on_the_last_bit(
    count: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maskiou, "MADE_AT_ONCE", 1)
    g = torch.Generator().manual_seed(0)
    masks = 0.5 + torch.randn(count, size[0] * 4 // 3, size[1] * 4 // 3, generator=g) * 1e-7
    true = maskiou.ImageMasks.of(masks, 0, torch.zeros(count), count, numbered=False)
    expected = hosts(masks, 0, torch.zeros(count), count, list(size), overlap=False)
    parts = list(true.parts(size))
    assert len(parts) == max(count // 8, 1)
    assert [first for first, _ in parts] == list(range(0, 8 * len(parts), 8))
    assert torch.equal(torch.cat([part for _, part in parts]), expected)
    assert 0 < int(expected.sum()) < expected.numel()


def test_no_detections() -> None:
    proto, coefficients, boxes = detected(0, 16, 16)
    found = maskiou.predicted_masks(proto, coefficients, boxes, (64, 64))
    assert found.shape == ops.process_mask(proto, coefficients, boxes, shape=(64, 64)).shape == (0, 16, 16)


def test_overlaps_of_random_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = 0
    for seed in range(120):
        r = random.Random(seed)
        size = r.choice([[16, 16], [24, 40], [17, 31], [40, 24]])
        scale, overlap, count = r.choice([1, 1, 2, 0.5]), r.random() < 0.6, r.choice([1, 2, 3, 9, 9, 40])
        side = [max(int(s * scale), 1) for s in size]
        image = torch.arange(3).repeat_interleave(count)
        if overlap:
            masks = torch.cat([numbered(count, *side, seed=seed + i, grain=r.choice([1, 4])) for i in range(3)])
        else:
            masks = (torch.rand(3 * count, *side, generator=torch.Generator().manual_seed(seed)) < 0.4).float()
        proto, coefficients, boxes = detected(r.choice([1, 2, 40]), size[0], size[1], seed)
        found = ops.process_mask(proto, coefficients, boxes, shape=(size[0] * 4, size[1] * 4))
        true = maskiou.ImageMasks.of(masks, 1, image, count, numbered=overlap)
        with monkeypatch.context() as patch:
            small_parts(patch, r)
            ours = maskiou.mask_overlaps(true, found)
        dense = hosts(masks, 1, image, count, size, overlap=overlap)
        expected = metrics.mask_iou(dense.flatten(1), found.flatten(1).float())
        assert ours.dtype == expected.dtype
        assert torch.equal(ours, expected), seed
        assert torch.equal(true.some(0, count, (size[0], size[1])), dense)
        touched += int((ours > 0).sum())
    assert touched > 1000


def test_numbers_that_are_no_objects() -> None:
    """More numbers than objects, and what is between numbers, belong to none."""
    masks = numbered(9, 16, 16)
    masks[0, :4] += 0.5
    masks[0, 5] = -1
    true = maskiou.ImageMasks.of(masks, 0, torch.zeros(6), 6, numbered=True)
    found = ops.process_mask(*detected(5, 16, 16), shape=(64, 64))
    dense = hosts(masks, 0, torch.zeros(6), 6, [16, 16], overlap=True)
    expected = metrics.mask_iou(dense.flatten(1), found.flatten(1).float())
    assert torch.equal(maskiou.mask_overlaps(true, found), expected)


@pytest.mark.parametrize("overlap", [True, False], ids=["numbered", "single"])
@pytest.mark.parametrize("side", [64, 32], ids=["as large", "resized"])
def test_what_overlaps_need_does_not_grow_with_the_objects(
    overlap: bool, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maskiou, "AT_ONCE", 1 << 16)
    monkeypatch.setattr(maskiou, "MADE_AT_ONCE", 1 << 16)
    found = ops.process_mask(*detected(20, 64, 64), shape=(256, 256))
    peaks = []
    for count in (100, 500):
        masks = numbered(count, side, side)
        if not overlap:
            masks = (torch.rand(count, side, side) < 0.1).float()
        true = maskiou.ImageMasks.of(masks, 0, torch.zeros(count), count, numbered=overlap)
        with LiveBytes() as live:
            live.add([masks, found, true.objects])
            before = live.current_bytes
            maskiou.mask_overlaps(true, found)
        peaks.append(live.peak_bytes - before)
    assert peaks[1] - peaks[0] < 0.3 * MIB  # stock: 400 more objects are 6.2 MiB, twice
    assert peaks[1] < 2.5 * MIB


def test_decoding_holds_no_floats_of_all_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maskiou, "DECODED_ON_CPU", 1 << 16)
    given = detected(64, 128, 128)
    with LiveBytes() as live:
        live.add(given)
        before = live.current_bytes
        masks = maskiou.predicted_masks(*given, (512, 512))
    assert live.peak_bytes - before < masks.numel() + MIB  # stock: four more bytes for each pixel


def test_other_functions_are_not_taken_for_the_hosts() -> None:
    def process(*given: Any, **named: Any) -> Tensor:
        return ops.process_mask(*given, **named).logical_not().byte()

    def compare(*given: Tensor) -> Tensor:
        return metrics.mask_iou(*given, eps=1e-6)

    assert masks_are_known(ops.process_mask, metrics.mask_iou, CPU)
    assert not masks_are_known(process, metrics.mask_iou, CPU)
    assert not masks_are_known(ops.process_mask, compare, CPU)
