"""The loss as a planned stage."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import yolo_ckpt
from tests.conftest import both_modes, host_model
from yolo_ckpt.measuring import LiveBytes, first_difference, snapshot
from yolo_ckpt.remat import registry, run_loss


def planned(model: nn.Module, ckpt: str = "selective") -> nn.Module:
    return yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=64, batch=2, ckpt=ckpt))


def batch_of(boxes: int = 5, size: int = 64) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {
        "img": torch.rand(2, 3, size, size),
        "cls": torch.zeros(2 * boxes, 1),
        "bboxes": 0.2 + 0.3 * torch.rand(2 * boxes, 4),
        "batch_idx": torch.arange(2).repeat_interleave(boxes).float(),
    }


@pytest.fixture
def deterministic() -> Iterator[None]:
    """As the host trains: without it two stock runs differ in the last bits of an embedding's gradient."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def trained(model: nn.Module, size: int = 64) -> Any:
    from ultralytics.cfg import get_cfg

    model.args, model.nc = get_cfg(), 80
    losses: list[list[Tensor]] = []
    for _ in range(2):
        loss, items = model(batch_of(size=size))
        loss.sum().backward()
        losses.append([loss.detach(), *items.values()])
    return snapshot(model, losses)


@both_modes
@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo11n.yaml", "rtdetr-l.yaml"])
def test_the_hosts_losses_are_the_same(name: str, ckpt: str, deterministic: None) -> None:
    model = host_model(name)
    stock = copy.deepcopy(model)
    size = 160 if "rtdetr" in name else 64  # its 300 queries need as many places
    torch.manual_seed(1)
    expected = trained(stock, size)
    torch.manual_seed(1)
    assert first_difference(expected, trained(planned(model, ckpt), size)) is None


def held_bytes(loss: Callable[[Tensor], Tensor], source: Tensor, *, keep: bool) -> int:
    """Live bytes after `loss` of a tensor of predictions, which the caller holds on to or not."""
    gc.collect()
    with LiveBytes() as live:
        predictions = source * 1
        out = loss(predictions)
        if not keep:
            del predictions
        held = live.current_bytes
        out.backward()
    return held


def test_a_copy_of_the_predictions_is_a_recipe_of_them() -> None:
    """What backward needs of the copy is not held beside the predictions, which the caller still has."""
    source = torch.rand(1, 8, 32, 32, requires_grad=True)

    def loss(scores: Tensor) -> Tensor:
        copied = scores.permute(0, 2, 3, 1).contiguous()
        return (copied * copied).sum()

    assert held_bytes(loss, source, keep=True) >= 2 * source.nbytes
    assert held_bytes(lambda p: run_loss(loss, (p,), {}), source, keep=True) < 1.1 * source.nbytes


def test_a_few_rows_are_held_themselves() -> None:
    """Not as a recipe that would hold all predictions after the caller has let them go."""
    source = torch.rand(64, 64, requires_grad=True)

    def loss(scores: Tensor) -> Tensor:
        rows = scores[torch.tensor([1, 5])]
        return (rows * rows).sum()

    assert held_bytes(lambda p: run_loss(loss, (p,), {}), source, keep=False) < source.nbytes / 4


def test_what_runs_without_gradients_leaves_no_recipe() -> None:
    """An assigner works under no_grad: a recipe would hold its inputs as long as its outputs live."""
    before = len(registry._entries)
    kept: list[Tensor] = []

    def loss(scores: Tensor) -> Tensor:
        with torch.no_grad():
            kept.append((scores + 1).repeat(50, 1))
        assert len(registry._entries) == before + 1, "the predictions alone"
        return (scores * scores).sum()

    run_loss(loss, (torch.rand(64, 64, requires_grad=True) * 1,), {}).backward()


def test_a_planned_criterion_goes_to_pickle_as_its_own_class() -> None:
    model = planned(host_model("yolo26n.yaml"))
    trained(model)
    assert "yolo_ckpt" not in str(model.criterion.__class__)
    assert b"yolo_ckpt" not in pickle.dumps(model.criterion.__class__)
    kind = type(model.criterion)
    clone = copy.deepcopy(model)
    assert type(clone.criterion) is kind
    assert clone.criterion is not model.criterion
    yolo_ckpt.remove(model)
    assert type(model.criterion) is model.criterion.__class__
    assert type(clone.criterion) is kind
    planned(model)
    assert type(model.criterion) is kind


def test_the_loss_is_stock_when_the_head_is_not_planned() -> None:
    model = host_model("yolo26n.yaml")
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=64, batch=2, ckpt="full", ckpt_stages="backbone"))
    trained(model)
    assert type(model.criterion) is model.criterion.__class__


def test_an_error_in_the_loss_leaves_nothing_on() -> None:
    def loss(scores: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_loss(loss, (torch.rand(3, requires_grad=True),), {})
