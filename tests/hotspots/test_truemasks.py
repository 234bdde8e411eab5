"""True masks for the assigner without the host's table of objects by pixels."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import yolo_ckpt
from tests.conftest import host_model
from yolo_ckpt.hotspots import assigner
from yolo_ckpt.hotspots.knownlosses import true_masks_role
from yolo_ckpt.hotspots.truemasks import GET, BoundedTrueMasks, TrueMasks, assignment_arguments
from yolo_ckpt.measuring import LiveBytes

losses = pytest.importorskip("ultralytics.utils.loss")


class Twice(losses.SegmentLoss26):  # type: ignore[misc]
    """A user's own, which does something with the result."""

    def get_assigned_targets_and_loss(self, preds: Any, batch: Any) -> Any:
        targets, loss, items = super().get_assigned_targets_and_loss(preds, batch)
        return targets, 2 * loss, items


class Renamed(losses.SegmentLoss26):  # type: ignore[misc]
    """A user's own, with nothing of its own here."""


def criterion(kind: Any, *, overlap: bool = True) -> Any:
    model = host_model("yolo26n-seg.yaml")
    model.args.overlap_mask = overlap
    return kind(model)


def batch_of(*, overlap: bool, side: int, objects: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predictions and targets of three images, the second without objects; prototypes of 32 x 32."""
    g = torch.Generator().manual_seed(1)
    preds = {
        "feats": [torch.zeros(3, 1, 16, 16)],
        "mask_coefficient": torch.rand(3, 32, 336, generator=g),
        "proto": torch.rand(3, 32, 32, 32, generator=g),
    }
    image = torch.tensor([0.0] * objects + [2.0] * (objects - 1))
    high, shape = (objects + 1, (3, side, side)) if overlap else (2, (len(image), side, side))
    return preds, {"batch_idx": image, "masks": torch.randint(high, shape, generator=g).to(torch.uint8)}


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("side", [32, 64, 48])
def test_the_masks_are_those_of_the_hosts_table(overlap: bool, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Tensor] = {}
    monkeypatch.setattr(losses.v8DetectionLoss, GET, lambda self, preds, batch, **given: seen.update(given))
    loss = criterion(losses.SegmentLoss26, overlap=overlap)
    preds, batch = batch_of(overlap=overlap, side=side, objects=5)
    loss.get_assigned_targets_and_loss(preds, batch)
    given = assignment_arguments(loss, preds, batch)
    masks = given.pop("gt_masks")
    table = seen.pop("gt_masks")
    assert masks.shape == table.shape
    assert torch.equal(masks.dense(), table)
    assert torch.equal(masks[2:3].dense(), table[2:3])
    assert masks[1:2].shape == table[1:2].shape
    assert seen.keys() == given.keys()
    assert all(torch.equal(seen[name], given[name]) for name in seen)


def test_whom_it_stands_for() -> None:
    assert true_masks_role(criterion(losses.SegmentLoss26)) is BoundedTrueMasks
    assert true_masks_role(criterion(Renamed)) is BoundedTrueMasks
    assert true_masks_role(criterion(Twice)) is None
    assert true_masks_role(criterion(losses.v8SegmentationLoss)) is None


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("small", [0, 1 << 40])
def test_a_training_step_has_stocks_bits(overlap: bool, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bounded assigner, and with the host's, which needs the table after all."""
    from yolo_ckpt.integration.batches import made_batch

    def trained(model: Any) -> list[Tensor]:
        model.args.overlap_mask = overlap
        loss = model(dict(data))[0]
        loss.sum().backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    monkeypatch.setattr(assigner, "SMALL", small)
    stock = host_model("yolo26n-seg.yaml")
    data = made_batch(stock, imgsz=160, batch=2, objects=5, device="cpu")
    if not overlap:
        numbered = data["masks"]
        data["masks"] = torch.cat([(numbered[i] == j + 1).float()[None] for i in range(2) for j in range(5)])
    planned = copy.deepcopy(stock)
    yolo_ckpt.apply(planned, yolo_ckpt.plan(planned, imgsz=160, batch=2, ckpt="full"))
    assert all(torch.equal(a, b) for a, b in zip(trained(stock), trained(planned), strict=True))
    parts = [part for part in vars(planned.criterion).values() if isinstance(part, losses.SegmentLoss26)]
    assert parts
    assert all(issubclass(type(part), BoundedTrueMasks) for part in parts)
    yolo_ckpt.remove(planned)
    assert not any(issubclass(type(part), BoundedTrueMasks) for part in parts)


def test_one_mask_at_a_time_is_held() -> None:
    maps = torch.randint(301, (1, 128, 128)).to(torch.uint8)
    masks = TrueMasks(maps=maps, count=300, size=(128, 128))
    with LiveBytes() as live:
        live.add([maps])
        before = live.current_bytes
        assert sum(int(masks.one(0, item).sum()) for item in range(300)) > 0
    assert live.peak_bytes - before <= 3 * maps.nbytes  # the table: 300
