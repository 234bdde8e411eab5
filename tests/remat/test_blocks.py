"""Blocks that end in a convolution of a concatenation, and gradients of skip connections."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import yolo_ckpt
from tests.conftest import Block, Staged, assert_same_training, both_modes
from yolo_ckpt.measuring import LiveBytes
from yolo_ckpt.remat import joined_forward, stage_loop
from yolo_ckpt.remat.blocks import is_concat


class Chunked(nn.Module):
    """As the host writes it."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Block(c, c), Block(2 * c, c)
        self.m = nn.ModuleList(Block(c // 2, c // 2, 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.extend(m(y[-1]) for m in self.m)
        return self.cv2(torch.cat(y, 1))  # type: ignore[no-any-return]


class Other(Chunked):
    """Nearly the same."""

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.extend(m(y[-2]) for m in self.m)
        return self.cv2(torch.cat(y, 1))  # type: ignore[no-any-return]


class TwoWays(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.cv1, self.cv2, self.cv3 = Block(c, c // 2), Block(c, c // 2), Block(c, c)
        self.m = nn.Sequential(Block(c // 2, c // 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))  # type: ignore[no-any-return]


class Concat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.d = 1

    def forward(self, x: list[Tensor]) -> Tensor:
        return torch.cat(x, self.d)


def test_known_forwards_are_told_by_their_instructions() -> None:
    assert joined_forward(Chunked) is not None
    assert joined_forward(TwoWays) is not None
    assert joined_forward(Other) is None
    assert is_concat(Concat)
    assert not is_concat(Chunked)


def test_the_blocks_of_the_host_are_known() -> None:
    block = pytest.importorskip("ultralytics.nn.modules.block")
    conv = pytest.importorskip("ultralytics.nn.modules.conv")
    assert all(joined_forward(kind) for kind in (block.C2f, block.C3k2, block.C3, block.C3k))
    assert is_concat(conv.Concat)


@both_modes
@pytest.mark.parametrize("kind", [Chunked, Other, TwoWays])
def test_they_are_exact(kind: Any, ckpt: str) -> None:
    torch.manual_seed(0)
    assert_same_training(Staged(Block(3, 8, 3), kind(8), Block(8, 4)), ckpt)


def test_parts_and_whole_are_let_go() -> None:
    """The same block whose instructions are not known keeps them until it returns."""

    class Unknown(Chunked):
        def forward(self, x: Tensor) -> Tensor:
            y = list(self.cv1(x).chunk(2, 1))
            y.extend(m(y[-1]) for m in self.m)
            joined = torch.cat(y, 1)
            return self.cv2(joined)  # type: ignore[no-any-return]

    def forward_peak(kind: Any) -> int:
        model = Staged(Block(3, 16, 3), kind(16), Block(16, 4))
        yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="full"))
        images = torch.rand(1, 3, 64, 64)
        with LiveBytes() as live:
            model(images)
        return int(live.peak_bytes)

    assert forward_peak(Chunked) < 0.8 * forward_peak(Unknown)


class Loop(Staged):
    """With the host's loop over the stages, as the engine's stands for it."""

    def forward(self, x: Any) -> Any:
        return stage_loop(self.model, x)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_skip_connection_does_not_hold_its_neighbours_gradient(batch: int) -> None:
    """Stage 1 is read by stage 2 and by the concatenation. Its gradient from the latter is a part of a tensor of twice
    its size in stock, and one of its own size here; the sums are the same."""

    def run(loop: type[Staged]) -> tuple[list[int], list[Tensor | None]]:
        torch.manual_seed(0)
        model = loop(Block(3, 32, 3), Block(32, 32), Block(32, 32), Concat(), Block(64, 4), sources={3: [-1, 1]})
        sizes: list[int] = []

        def watch(_: Any, inputs: Any) -> None:
            own = inputs[0][1].grad_fn  # hands the gradient on to stage 1
            own.register_hook(lambda given, _: sizes.extend(g.untyped_storage().nbytes() for g in given))

        if loop is Loop:
            model.model[3].register_forward_pre_hook(watch)
        model(torch.rand(batch, 3, 96, 96)).sum().backward()
        return sizes, [p.grad for p in model.parameters()]

    one = batch * 32 * 96 * 96 * 4
    sizes, grads = run(Loop)
    assert sizes == [one]
    _, stock = run(Staged)
    assert all(torch.equal(a, b) for a, b in zip(grads, stock, strict=True) if a is not None and b is not None)
