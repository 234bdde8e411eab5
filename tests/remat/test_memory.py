"""What is recomputed, what is held, and that nothing stays behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import yolo_ckpt
from tests.conftest import Block, Staged, both_modes, plain_step, toy
from yolo_ckpt.measuring import LiveBytes, training_step
from yolo_ckpt.remat import fused, normalize, registry, split, values


def flops_of(model: nn.Module, ckpt: str) -> int:
    return flops_under(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))


def flops_under(model: nn.Module, plan: yolo_ckpt.Plan) -> int:
    yolo_ckpt.apply(model, plan)
    with FlopCounterMode(display=False) as counter:
        training_step(model, torch.rand(1, 3, 32, 32))
    return counter.get_total_flops()


class Chain(nn.Module):
    """Three equal convolution blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(8, 8, 3) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)  # type: ignore[no-any-return]


def staged_chain() -> Staged:
    return Staged(Block(3, 8, 3), Block(8, 8, 3), Chain(), Block(8, 4))


def test_any_large_enough_storage_stands_in_for_an_input() -> None:
    x, larger, smaller = torch.rand(1, 4, 8, 8), torch.rand(1, 6, 8, 8), torch.rand(1, 3, 8, 8)
    stand_in = split._stand_in(x, larger, None)
    assert stand_in is not None
    assert stand_in.untyped_storage().data_ptr() == larger.untyped_storage().data_ptr()
    assert (stand_in.size(), stand_in.stride()) == (x.size(), x.stride())
    assert split._stand_in(x, smaller, None) is None
    assert split._stand_in(x, larger.double(), None) is None


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("groups", "kernel"), [(1, 1), (1, 3), (8, 3)])
def test_an_untouched_tensor_stands_in_where_nothing_is_large_enough(
    layout: torch.memory_format, groups: int, kernel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input larger than the gradient of the output: it is gone before its own gradient is made."""
    made: list[Tensor] = []
    untouched = split._untouched
    monkeypatch.setattr(split, "_untouched", lambda x: made.append(untouched(x).fill_(torch.nan)) or made[-1])
    monkeypatch.setattr(split, "_is_held", lambda value: False)  # as where the input is recomputed
    x = torch.randn(2, 16, 24, 24).to(memory_format=layout).requires_grad_()
    weight = torch.randn(8, 16 // groups, kernel, kernel).to(memory_format=layout).requires_grad_()
    geometry = ([2, 2], [kernel // 2] * 2, [1, 1], False, [0, 0], groups)
    stock = torch.ops.aten.convolution.default(x, weight, None, *geometry)
    g = torch.randn_like(stock)
    expected = torch.autograd.grad(stock, (x, weight), g)
    found = torch.autograd.grad(split.SplitConv.apply(x, weight, None, geometry), (x, weight), g)
    assert [(t.size(), t.stride()) for t in made] == [(x.size(), x.stride())]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_selective_recomputes_no_convolution() -> None:
    assert flops_of(staged_chain(), "selective") == flops_of(staged_chain(), "off")


@pytest.mark.parametrize(("nested_min_bytes", "times"), [(0, 3), (1 << 30, 2)])
def test_full_recomputes_exactly_what_it_let_go(
    nested_min_bytes: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First segment (stages 0 and 1): one convolution, once. The chain: its tail is held; where values are large, the
    first convolution is computed on the way to the second, let go, and computed again. The last stage is its own
    tail."""
    monkeypatch.setattr(values, "LARGE_BYTES", nested_min_bytes)
    pixels = 32 * 32
    first, inner = 2 * 3 * 8 * 9 * pixels, 2 * 8 * 8 * 9 * pixels
    assert flops_of(staged_chain(), "full") - flops_of(staged_chain(), "off") == first + times * inner


@pytest.mark.parametrize(("nested_min_bytes", "firsts", "inners"), [(0, 3, 4), (1 << 30, 1, 3)])
def test_two_convolutions_bring_back_what_goes_inside_a_segment(
    nested_min_bytes: int, firsts: int, inners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One segment of five convolutions, whose tail is held. On the way to the fourth the first and the second are let
    go of, the third is not; the way back to the second lets the first go once more."""
    monkeypatch.setattr(values, "LARGE_BYTES", nested_min_bytes)
    pixels = 32 * 32
    first, inner = 2 * 3 * 8 * 9 * pixels, 2 * 8 * 8 * 9 * pixels
    model = staged_chain()
    plan = yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt="full")
    stages = [replace(s, opens=s.index in (0, 3), closes=s.index in (2, 3)) for s in plan.stages]
    recomputed = flops_under(model, replace(plan, stages=tuple(stages))) - flops_of(staged_chain(), "off")
    assert recomputed == firsts * first + inners * inner


@both_modes
def test_less_is_held_between_forward_and_backward(ckpt: str) -> None:
    model = toy()
    stock = yolo_ckpt.measure(model, imgsz=128, batch=2)
    planned = yolo_ckpt.measure(model, imgsz=128, batch=2, plan=yolo_ckpt.plan(model, imgsz=128, batch=2, ckpt=ckpt))
    limit = {"selective": 0.45, "full": 0.35}[ckpt]
    ratio = (planned.forward_bytes - planned.fixed_bytes) / (stock.forward_bytes - stock.fixed_bytes)
    assert ratio < limit
    assert planned.peak_bytes < stock.peak_bytes


@pytest.fixture
def known_before() -> set[int]:
    """Storages that the registry knows before the test: parameters that other tests keep alive."""
    gc.collect()
    return set(registry._entries)


def known_storages() -> set[int]:
    """Storages that the registry has an entry for."""
    gc.collect()
    return set(registry._entries)


def storages_of(model: nn.Module) -> set[int]:
    return {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}


@both_modes
def test_nothing_stays_behind(ckpt: str, known_before: set[int]) -> None:
    model = toy()
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))
    step, alive = plain_step(), []
    with LiveBytes() as live:
        for i in range(20):
            step(model, i)
            gc.collect()
            alive.append(live.current_bytes)
    assert alive[19] == alive[1]
    assert known_storages() <= storages_of(model) | known_before
    assert not registry.state.dear


@both_modes
def test_a_graph_that_is_dropped_frees_everything(ckpt: str, known_before: set[int]) -> None:
    model = toy()
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))
    with LiveBytes() as live:
        live.add([*model.parameters(), *model.buffers()])
        before = live.current_bytes
        out = model(torch.rand(2, 3, 64, 64))
        assert live.current_bytes > before
        del out
        assert live.current_bytes == before
    assert known_storages() <= storages_of(model) | known_before


class Changed(nn.Module):
    """A stage that changes an activation where the engine does not look: behind autograd's back, under no_grad."""

    def __init__(self, change: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.change, self.kept = change, Block(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.kept.conv(x)
        out = self.kept.act(self.kept.bn(y))
        self.y = y.detach()
        return out


@both_modes
def test_a_change_in_place_after_the_forward_pass_raises(ckpt: str) -> None:
    stage = Changed(lambda t: None)
    model = Staged(Block(3, 8, 3), Block(8, 8, 3), stage, Block(8, 4))
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))
    out = model(torch.rand(1, 3, 32, 32))
    stage.y.add_(1)
    with pytest.raises(yolo_ckpt.RematError, match="changed in place"):
        out.sum().backward()


@pytest.mark.parametrize("name", ["conv.weight", "bn.weight", "bn.bias"])
def test_a_weight_changed_before_backward_raises(name: str) -> None:
    model = toy()
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt="full"))
    out = model(torch.rand(1, 3, 32, 32))
    with torch.no_grad():
        model.model[1].get_parameter(name).add_(1)
    with pytest.raises(yolo_ckpt.RematError):
        out.sum().backward()


@both_modes
def test_an_error_inside_a_stage_leaves_nothing_on(ckpt: str) -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("broken stage")

    model = Staged(Block(3, 8, 3), Block(8, 8, 3), Broken(), Block(8, 4))
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))
    with pytest.raises(ValueError, match="broken stage"):
        model(torch.rand(1, 3, 32, 32))
    assert not registry.state.active
    assert not registry.state.dear
    training_step(yolo_ckpt.apply(toy(), yolo_ckpt.plan(toy(), imgsz=32, batch=1, ckpt=ckpt)), torch.rand(1, 3, 32, 32))


def test_small_tensors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "small_bytes", 1 << 16)
    model = toy()
    stock = yolo_ckpt.measure(model, imgsz=16, batch=1)
    planned = yolo_ckpt.measure(model, imgsz=16, batch=1, plan=yolo_ckpt.plan(model, imgsz=16, batch=1, ckpt="full"))
    assert planned.forward_bytes == stock.forward_bytes


class Fork(nn.Module):
    """Two blocks that read the same map."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Block(8, 8), Block(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x) + self.b(x)  # type: ignore[no-any-return]


class Normalisations(TorchDispatchMode):
    """Counts batch normalisations."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten.native_batch_norm.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("ckpt", "large_bytes", "times"),
    [("selective", 0, 5), ("selective", 1 << 30, 3), ("full", 0, 7), ("full", 1 << 30, 3)],
)
def test_small_maps_are_computed_once(large_bytes: int, times: int, ckpt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map of the first block is read by two convolutions, and its normalisation by its own backward: once each
    where maps are large, once for all three where they are small. The other two are read by their backward alone.
    In full both convolutions run again, and each reads the first block's map once more."""
    for module in (values, fused):
        monkeypatch.setattr(module, "LARGE_BYTES", large_bytes)
    model = Staged(Block(3, 8, 3), Fork())
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt))
    out = model(torch.rand(1, 3, 32, 32))
    with Normalisations() as counted:
        out.sum().backward(retain_graph=True)
    assert counted.count == times
    remembered = [v for v in gc.get_objects() if type(v) is values.Value and v.memo is not None]
    remembered += [n for n in gc.get_objects() if type(n) is normalize.Norm and n.z is not None]
    assert not remembered, "nothing stays after the last handle has asked"
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    out.sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), expected, strict=True))
