"""The loop over the stages: the host's results, without holding what nobody reads any more."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import yolo_ckpt
from tests.conftest import Block, host_model
from yolo_ckpt.remat import is_known_loop, stage_loop


def planned(model: nn.Module) -> nn.Module:
    return yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="selective"))


class Sum(nn.Module):
    def forward(self, maps: list[Tensor]) -> Tensor:
        return sum(maps[1:], maps[0])


def staged(*pairs: tuple[nn.Module, Any]) -> nn.Sequential:
    stages = nn.Sequential(*(stage for stage, _ in pairs))
    for stage, (_, source) in zip(stages, pairs, strict=True):
        stage.f = source
    return stages


def test_every_way_to_name_a_source() -> None:
    """-1 and -2 count from the stage itself, other numbers from the first; a stage may read its
    predecessor by number."""
    a, b, c, d = (Block(3, 3) for _ in range(4))
    stages = staged((a, -1), (b, -1), (c, 0), (Sum(), [-1, 1, -3]), (d, -2), (Sum(), [4, 3]))
    for module in (a, b, c, d):
        module.eval()
    x = torch.rand(1, 3, 8, 8)
    one = a(x)
    two, three = b(one), c(one)
    total = three + two + one
    assert torch.equal(stage_loop(stages, x), d(three) + total)


def test_outputs_die_after_their_last_reader() -> None:
    alive: list[bool] = []
    first: list[weakref.ref[Tensor]] = []
    stages = staged((Block(3, 3), -1), (Block(3, 3), -1), (Sum(), [-1, 0]), (Block(3, 3), -1))
    stages[0].register_forward_hook(lambda _, __, out: first.append(weakref.ref(out)))
    for stage in stages[1:]:
        stage.register_forward_pre_hook(lambda *_: alive.append(first[0]() is not None))
    with torch.no_grad():
        stage_loop(stages, torch.rand(1, 3, 8, 8))
    assert alive == [True, True, False]


@pytest.mark.parametrize("name", ["yolo26n.yaml", "yolo11n-seg.yaml", "yolov9t.yaml", "yolo11n-cls.yaml"])
def test_the_hosts_loop_is_known_and_the_same(name: str) -> None:
    model = host_model(name).eval()
    assert is_known_loop(type(model)._predict_once)
    images = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        stock, ours = copy.deepcopy(model)(images), planned(model)(images)
    pairs = list(zip(torch.utils._pytree.tree_leaves(stock), torch.utils._pytree.tree_leaves(ours), strict=True))
    assert pairs
    assert all(torch.equal(a, b) for a, b in pairs if isinstance(a, Tensor))


def test_embeddings_and_profiles_are_the_hosts() -> None:
    model = host_model("yolo26n.yaml").eval()
    images = torch.rand(1, 3, 64, 64)
    stock = copy.deepcopy(model).predict(images, embed=[3, 9])
    assert all(torch.equal(a, b) for a, b in zip(stock, planned(model).predict(images, embed=[3, 9]), strict=True))


def test_another_loop_is_left_alone() -> None:
    class Other:
        def _predict_once(self, x: Any, profile: bool = False, embed: Any = None) -> Any:
            return self.something_else(x)

    assert not is_known_loop(Other._predict_once)
    assert not is_known_loop(None)
    rtdetr = host_model("rtdetr-l.yaml")
    assert yolo_ckpt.apply(rtdetr, yolo_ckpt.plan(rtdetr, imgsz=160, batch=1, ckpt="full"))(torch.rand(1, 3, 160, 160))
