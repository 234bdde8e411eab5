"""The bounded mask loss and mask overlaps against the host's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import yolo_ckpt
from tests.conftest import host_model
from tests.hotspots.test_assigner import anchors, difference, made, problem
from yolo_ckpt.hotspots import assigner, assigner_roles, maskoverlap, masks, rounded_parts
from yolo_ckpt.hotspots.knownlosses import mask_role
from yolo_ckpt.measuring import LiveBytes

losses = pytest.importorskip("ultralytics.utils.loss")
tal = pytest.importorskip("ultralytics.utils.tal")

MIB = 1 << 20


def mask_problem(
    *, overlap: bool, images: int = 2, positives: int = 60, objects: int = 8, side: int = 64, largest: float = 0.4
) -> tuple[Tensor, ...]:
    """What the host's loss hands to its mask loss."""
    g = torch.Generator().manual_seed(0)
    count = 4 * positives
    positive = torch.zeros(images, count, dtype=torch.bool)
    for row in positive:
        row[torch.randperm(count, generator=g)[:positives]] = True
    sizes = 0.02 + largest * torch.rand(images, objects, 2, generator=g)
    centres = torch.rand(images, objects, 2, generator=g)
    boxes = torch.cat([(centres - sizes / 2).clamp(0), (centres + sizes / 2).clamp(max=1)], -1) * side * 4
    given = torch.randint(objects, (images, count), generator=g)
    target = torch.gather(boxes, 1, given[..., None].expand(-1, -1, 4))
    shape = (images, side, side) if overlap else (images * objects, side, side)
    truth = torch.randint(objects + 1 if overlap else 2, shape, generator=g).float()
    image = torch.arange(images).repeat_interleave(objects).view(-1, 1).float()
    proto = torch.randn(images, 32, side, side, generator=g)
    coefficients = 0.3 * torch.randn(images, count, 32, generator=g)
    return positive, truth, given, target, image, proto, coefficients, torch.tensor([side * 4.0] * 2)


def stock_loss(overlap: bool) -> Any:
    loss = losses.v8SegmentationLoss.__new__(losses.v8SegmentationLoss)
    loss.overlap = overlap
    return loss.calculate_segmentation_loss


def ours(overlap: bool) -> Any:
    return lambda *given: masks.mask_loss(*given, overlap=overlap)


def value_and_gradients(loss: Any, given: tuple[Tensor, ...], amp: bool = False) -> list[Tensor]:
    *fixed, proto, coefficients, imgsz = given
    proto, coefficients = proto.clone().requires_grad_(), coefficients.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        value = loss(*fixed, proto, coefficients, imgsz)
    (3 * value).backward()
    assert proto.grad is not None
    assert coefficients.grad is not None
    return [value.detach(), proto.grad, coefficients.grad]


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("pixels", [1 << 16, 300])
def test_value_and_gradients_are_the_hosts(overlap: bool, pixels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "PIXELS_ON_CPU", pixels)
    given = mask_problem(overlap=overlap)
    for a, b in zip(
        value_and_gradients(stock_loss(overlap), given), value_and_gradients(ours(overlap), given), strict=True
    ):
        assert a.dtype == b.dtype
        assert float((a - b).abs().max()) <= 1e-6 * float(a.abs().max())


def test_half_precision() -> None:
    given = mask_problem(overlap=True)
    for a, b in zip(
        value_and_gradients(stock_loss(True), given, amp=True),
        value_and_gradients(ours(True), given, amp=True),
        strict=True,
    ):
        assert float((a - b).abs().max()) <= 0.02 * float(a.abs().max())


def test_an_image_without_positives() -> None:
    given = mask_problem(overlap=True)
    given[0][1] = False
    stock, found = value_and_gradients(stock_loss(True), given), value_and_gradients(ours(True), given)
    for a, b in zip(stock, found, strict=True):
        assert float((a - b).abs().max()) <= 1e-6 * float(a.abs().max())
    assert float(found[1][1].abs().max()) == 0


def test_what_it_needs_does_not_grow_with_the_positives() -> None:
    peaks = []
    for positives in (100, 400):
        given = mask_problem(overlap=True, images=1, positives=positives, objects=20, side=128)
        with LiveBytes() as live:
            live.add(given)
            before = live.current_bytes
            value_and_gradients(ours(True), given)
        peaks.append(live.peak_bytes - before)
    assert peaks[1] - peaks[0] < 1 * MIB  # stock: 300 more positives are 19 MiB, several times
    assert peaks[1] < 20 * MIB


@pytest.mark.parametrize("name", ["yolo26n-seg.yaml", "yolo11n-seg.yaml"])
def test_small_ones_are_the_hosts_to_the_last_bit_and_large_ones_are_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from yolo_ckpt.integration.batches import made_batch

    def trained(model: Any) -> Any:
        loss = model(dict(data))[0]
        loss.sum().backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    stock = host_model(name)
    for parameter in stock.parameters():
        parameter.requires_grad_(parameter.dtype.is_floating_point)
    data = made_batch(stock, imgsz=160, batch=2, objects=5, device="cpu")
    small, large = copy.deepcopy(stock), copy.deepcopy(stock)
    for model in (small, large):
        yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=160, batch=2, ckpt="full"))
    expected = trained(stock)
    assert all(torch.equal(a, b) for a, b in zip(expected, trained(small), strict=True))
    assert rounded_parts(small) == []
    monkeypatch.setattr(masks, "SMALL", 0)
    assert any(not torch.equal(a, b) for a, b in zip(expected, trained(large), strict=True))
    assert rounded_parts(large) == ["the mask loss"]


class Weighted(losses.v8SegmentationLoss):  # type: ignore[misc]
    """A user's own."""

    @staticmethod
    def single_mask_loss(*given: Any) -> Tensor:
        return 1.1 * losses.v8SegmentationLoss.single_mask_loss(*given)  # type: ignore[no-any-return]


class Other(losses.v8SegmentationLoss):  # type: ignore[misc]
    """A user's own, called in another way."""

    @staticmethod
    def single_mask_loss(truth: Tensor) -> Tensor:
        return truth.sum()


def test_one_that_cannot_be_called_stays_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "yolo_ckpt"):
        assert mask_role(Other.__new__(Other)) is None
    assert "takes 1 positional argument" in caplog.text


def test_whom_it_stands_for() -> None:
    def role(kind: Any) -> Any:
        return mask_role(kind.__new__(kind))

    assert role(losses.v8SegmentationLoss) is role(losses.SegmentLoss26) is masks.BoundedMaskLoss
    assert role(losses.v8DetectionLoss) is role(Weighted) is None


def mask_assigner(given: tuple[Tensor, ...], topk: int, topk2: int | None) -> Any:
    return made(tal.SegTaskAlignedAssigner, given, topk, topk2)


@pytest.mark.parametrize("pixels", [1 << 20, 500])
def test_mask_overlaps_are_the_hosts(pixels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maskoverlap, "PIXELS_AT_ONCE", pixels)
    g = torch.Generator().manual_seed(1)
    for seed in range(12):
        given = problem(seed, turned=False)
        images, boxes = given[4].shape[:2]
        extra = {
            "pd_coef": torch.randn(images, given[2].shape[0], 8, generator=g),
            "mask_scale": torch.full((images, 1), 0.25),
            "proto": torch.randn(images, 8, 80, 80 + 8 * (seed % 3), generator=g),
            "gt_masks": torch.rand(images, boxes, 80, 80 + 8 * (seed % 3), generator=g) < 0.5,
        }
        one, bounded = mask_assigner(given, 10 - seed % 4, None), mask_assigner(given, 10 - seed % 4, None)
        roles = assigner_roles(bounded)
        assert maskoverlap.BoundedMaskOverlap in roles
        bounded.__class__ = type("SegTaskAlignedAssigner", (*roles, tal.SegTaskAlignedAssigner), {})
        with torch.no_grad():
            stock = one._forward(*(t.clone() for t in given), **extra)
            assert difference(stock, assigner.assign(bounded, *given, **extra)) == [], seed
    assert anchors(320, 320)[0].shape[0] >= 1920
