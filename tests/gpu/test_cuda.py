"""On a CUDA device: equal to the last bit, and less memory allocated. Skipped where there is none."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import yolo_ckpt
from tests.conftest import both_modes, host_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    """As the host trains by default."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False


@both_modes
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("autocast", [None, torch.float16, torch.bfloat16])
def test_equal_to_the_last_bit(ckpt: str, layout: torch.memory_format, autocast: torch.dtype | None) -> None:
    model = host_model("yolo26n.yaml", "cuda").to(memory_format=layout)
    plan = yolo_ckpt.plan(model, imgsz=320, batch=2, ckpt=ckpt)
    with torch.autocast("cuda", autocast or torch.float16, enabled=autocast is not None):
        yolo_ckpt.verify(model, plan, imgsz=320, batch=2)


def allocated_bytes(model: nn.Module, ckpt: str) -> int:
    """Peak bytes allocated by one step."""
    trial = copy.deepcopy(model)
    yolo_ckpt.apply(trial, yolo_ckpt.plan(trial, imgsz=640, batch=4, ckpt=ckpt))
    torch.cuda.reset_peak_memory_stats()
    yolo_ckpt.measuring.training_step(trial, torch.rand(4, 3, 640, 640, device="cuda"))
    return torch.cuda.max_memory_allocated()


def test_less_is_allocated() -> None:
    model = host_model("yolo26n.yaml", "cuda")
    stock, selective, full = (allocated_bytes(model, ckpt) for ckpt in ("off", "selective", "full"))
    assert full < selective < stock
