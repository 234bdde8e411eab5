"""What the tests share: small staged models, real ones, and the comparison with stock training."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import yolo_ckpt
from yolo_ckpt.measuring import first_difference, snapshot, tensors_in
from yolo_ckpt.remat import registry

pytest_plugins = ["tests.made_data"]


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests use small tensors; none of them is too small for a recipe here."""
    monkeypatch.setattr(registry, "small_bytes", 0)


@pytest.fixture(autouse=True)
def nothing_left_on() -> Iterator[None]:
    """No test may leave recording, hooks or modes on."""
    yield
    assert not registry.state.active
    assert not registry.state.loss
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert torch._C._len_torch_dispatch_stack() == 0


class Block(nn.Module):
    """Convolution, normalisation, activation, as the family writes it."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, act: nn.Module | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = act or nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Residual(nn.Module):
    """Two blocks around a sum."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = Block(c, c, 3), Block(c, c, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(self.a(x))


class Staged(nn.Module):
    """A model of stages in the host's form: each has `f` (its inputs), `i` and `type`."""

    def __init__(self, *stages: nn.Module, sources: dict[int, Any] | None = None) -> None:
        super().__init__()
        self.model = nn.Sequential(*stages)
        for i, stage in enumerate(self.model):
            stage.i, stage.f, stage.type = i, (sources or {}).get(i, -1), type(stage).__name__

    def forward(self, x: Any) -> Any:
        made: list[Any] = []
        for stage in self.model:
            if stage.f != -1:
                x = made[stage.f] if isinstance(stage.f, int) else [x if j == -1 else made[j] for j in stage.f]
            x = stage(x)
            made.append(x)
        return x


def toy(width: int = 8) -> Staged:
    """Four stages: two blocks, a residual, a tail."""
    return Staged(Block(3, width, 3, 2), Block(width, width, 3), Residual(width), Block(width, 4))


# Eight stages of the host's and its head: for what is simulated many times.
SMALL = str(Path(__file__).parent / "models" / "small.yaml")


def host_model(name: str, device: str = "cpu") -> nn.Module:
    """A task model of the host, from its YAML, in train mode, with every parameter trainable."""
    from yolo_ckpt.integration.models import load_model

    torch.manual_seed(0)
    logging.getLogger("ultralytics").setLevel(logging.ERROR)
    return load_model(name, device)


Step = Callable[[nn.Module, int], list[Tensor]]


def plain_step(size: int = 32, batch: int = 2, dtype: torch.dtype = torch.float32) -> Step:
    """A step that runs the model on noise and backward from noise; the outputs are returned."""

    def step(model: nn.Module, i: int) -> list[Tensor]:
        torch.manual_seed(i)
        images = torch.rand(batch, 3, size, size, dtype=dtype)
        outputs = [t for t in tensors_in(model(images)) if t.requires_grad]
        torch.autograd.backward(outputs, [torch.randn_like(t) for t in outputs])
        return [t.detach().clone() for t in outputs]

    return step


def assert_same_training(model: nn.Module, ckpt: str, step: Step | None = None, steps: int = 2) -> nn.Module:
    """Run `steps` steps of copies of `model` with and without a plan; all must be equal to the last bit. Returns the
    planned copy."""
    step = step or plain_step()
    stock, planned = copy.deepcopy(model), copy.deepcopy(model)
    yolo_ckpt.apply(planned, yolo_ckpt.plan(planned, imgsz=32, batch=2, ckpt=ckpt))
    states = []
    for trained in (stock, planned):
        torch.manual_seed(0)
        outputs = [step(trained, i) for i in range(steps)]
        states.append(snapshot(trained, outputs))
    assert first_difference(*states) is None
    return planned


both_modes = pytest.mark.parametrize("ckpt", ["selective", "full"])
