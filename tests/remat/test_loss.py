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
from yolo_ckpt.remat import registry, run_loss, sequential, sequential_forward


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


def trained(model: nn.Module, size: int = 64, keypoints: int = 0) -> Any:
    from ultralytics.cfg import get_cfg

    model.args, model.nc = get_cfg(), model.nc if keypoints else 80
    losses: list[list[Tensor]] = []
    for _ in range(2):
        batch = batch_of(size=size)
        if keypoints:
            batch["keypoints"] = torch.cat([torch.rand(10, keypoints, 2), torch.ones(10, keypoints, 1)], 2)
        loss, items = model(batch)
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


class Network(nn.Sequential):
    """A small network inside a loss, as a planned head has it."""

    forward = sequential_forward


def network() -> Network:
    torch.manual_seed(0)
    return Network(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2), nn.Tanh())


@pytest.mark.parametrize(("action", "layers"), [("off", 4), ("selective", 2), ("full", 0)])
def test_a_network_inside_a_loss_holds_what_its_action_says(action: str, layers: int) -> None:
    """Of four tables of rows by 64 (two matrix products, two activations) all, the products, or none."""
    rows = torch.rand(sequential.LEAST_ROWS, 2, requires_grad=True)
    net = network()

    def loss(x: Tensor) -> Tensor:
        return net(x).square().sum()

    held = held_bytes(loss if action == "off" else lambda x: run_loss(loss, (x,), {}, action), rows, keep=True)
    table = rows.shape[0] * 64 * 4
    assert layers * table <= held < (layers + 0.5) * table


@pytest.mark.parametrize("autocast", [False, True])
@both_modes
def test_networks_inside_a_loss_give_the_same_bits(ckpt: str, autocast: bool) -> None:
    def gradients(action: str) -> list[Tensor]:
        nets, x = [network(), network()], torch.linspace(-3, 3, 2 * sequential.LEAST_ROWS).view(-1, 2).requires_grad_()

        def loss(z: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                for net in nets * 2:  # each of them twice: gradients are summed in an order
                    z = (z - net(z)) * torch.exp(-net(z.flip(1)).float())
            return z.square().mean()

        out = run_loss(loss, (x,), {}, action) if action else loss(x)
        out.backward()
        return [out.detach(), x.grad, *(p.grad for net in nets for p in net.parameters())]  # type: ignore[list-item]

    assert all(torch.equal(a, b) for a, b in zip(gradients(""), gradients(ckpt), strict=True))


@both_modes
def test_the_flow_model_of_pose_is_a_part_of_the_planned_loss(
    ckpt: str, deterministic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    run_network = sequential.run_network
    monkeypatch.setattr(sequential, "LEAST_ROWS", 1)
    monkeypatch.setattr(sequential, "run_network", lambda f, x: runs.append(registry.state.loss) or run_network(f, x))
    model = host_model("yolo26n-pose.yaml")
    stock = copy.deepcopy(model)
    expected, found = trained(stock, keypoints=17), trained(planned(model, ckpt), keypoints=17)
    assert first_difference(expected, found) is None
    assert runs == [ckpt] * 2 * 2 * 12  # steps, heads, networks


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
