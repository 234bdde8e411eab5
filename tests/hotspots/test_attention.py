"""Fused attention: equal up to rounding, really fused, and only where it is asked for or large."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import yolo_ckpt
from tests.conftest import host_model
from yolo_ckpt.hotspots import attention, attention_role, rounded_parts
from yolo_ckpt.measuring import LiveBytes

block = pytest.importorskip("ultralytics.nn.modules.block")
transformer = pytest.importorskip("ultralytics.nn.modules.transformer")


class TokensFirst(nn.Module):
    """A layer of tokens (T, B, C) for a map."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.layer = transformer.TransformerLayer(channels, heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(2).permute(2, 0, 1)).permute(1, 2, 0).view_as(x)  # type: ignore[no-any-return]


BLOCKS = {
    "narrow keys": lambda: block.Attention(64, 2),
    "wide keys": lambda: block.Attention(64, 2, 1.0),
    "areas": lambda: block.AAttn(64, 2, 4),
    "one area": lambda: block.AAttn(64, 2, 1),
    "encoder": lambda: transformer.AIFI(64, 128, 4),
    "tokens first": lambda: TokensFirst(64, 4),
}


class Operators(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def fused(module: Any, mode: str = "fused") -> Any:
    if isinstance(module, TokensFirst):
        fused(module.layer, mode)
        return module
    role = attention_role(module, mode)
    assert role is not None
    kind = type(module)
    module.__class__ = type(kind.__name__, (role, kind), {})
    return module


def step(module: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    x = x.clone().requires_grad_()
    out = module(x)
    out.backward(torch.arange(out.numel(), dtype=out.dtype).cos().view_as(out))
    assert x.grad is not None
    return (out.detach(), x.grad, *(p.grad for p in module.parameters() if p.grad is not None))


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_up_to_rounding(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    stock = BLOCKS[name]().train()
    torch.manual_seed(0)
    ours = fused(BLOCKS[name]().train())
    x = torch.randn(2, 64, 12, 16)
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
        pairs = list(zip(step(stock, x), step(ours, x), strict=True))
    assert len(pairs) > 5
    share = 1e-4 if dtype is torch.float32 else 0.05
    for a, b in (
        pairs if dtype is torch.float32 else pairs[:2]
    ):  # some gradients of parameters are zero but for rounding
        assert a.shape == b.shape
        assert float((a - b).abs().max()) <= share * float(a.abs().max()) + 1e-3
    assert step(stock, x)[0].stride() == step(ours, x)[0].stride()


@pytest.mark.parametrize("name", BLOCKS)
def test_the_fused_kernel_is_taken(name: str) -> None:
    """Not the composite of two products and a softmax, which torch takes silently for what its kernels do not like."""
    module = fused(BLOCKS[name]().train())
    with Operators() as seen:
        step(module, torch.randn(1, 64, 8, 16))
    assert "_scaled_dot_product_flash_attention_for_cpu" in seen.names
    assert "_scaled_dot_product_flash_attention_for_cpu_backward" in seen.names
    assert not {"_softmax", "bmm", "baddbmm", "_scaled_dot_product_attention_math"} & set(seen.names)


def test_no_table_of_tokens_by_tokens() -> None:
    peaks = []
    for module in (block.Attention(64, 2).train(), fused(block.Attention(64, 2).train())):
        with LiveBytes() as live:
            step(module, torch.randn(1, 64, 48, 48))
        peaks.append(live.peak_bytes)
    table = 2 * 4 * (48 * 48) ** 2
    assert peaks[0] > 2 * table
    assert peaks[1] < 0.5 * table


def test_only_large_ones_by_default() -> None:
    module = fused(block.Attention(64, 2).train(), "auto")
    for side, name in ((31, "_softmax"), (32, "_scaled_dot_product_flash_attention_for_cpu")):
        with Operators() as seen:
            module(torch.randn(1, 64, side, 32))
        assert name in seen.names
    assert side * 32 == attention.LARGE


def test_not_where_nothing_is_learnt() -> None:
    module = fused(block.Attention(64, 2))
    for train, grad in ((False, True), (True, False)):
        module.train(train)
        with Operators() as seen, torch.set_grad_enabled(grad):
            module(torch.randn(1, 64, 8, 8))
        assert "_softmax" in seen.names


class Scaled(block.Attention):  # type: ignore[misc]
    """A user's own."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.01  # type: ignore[no-any-return]


def test_a_users_own_attention_is_left_alone() -> None:
    assert attention_role(Scaled(64, 2), "fused") is None
    assert attention_role(nn.Conv2d(1, 1, 1), "fused") is None
    assert attention_role(block.Attention(64, 2), "stock") is None


@pytest.mark.parametrize("mode", ["stock", "auto", "fused"])
def test_the_flag(mode: str) -> None:
    model = host_model("yolo26n.yaml")
    plan = yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="full", ckpt_attention=mode)
    assert yolo_ckpt.Plan.from_json(plan.to_json()) == plan
    yolo_ckpt.apply(model, plan)
    with Operators() as seen:
        model.train()(torch.rand(1, 3, 64, 64))
    assert ("_scaled_dot_product_flash_attention_for_cpu" in seen.names) == (mode == "fused")
    assert bool(rounded_parts(model)) == (mode == "fused")
    yolo_ckpt.remove(model)
    assert type(model.model[10].m[0].attn) is block.Attention


def test_a_wrong_mode() -> None:
    with pytest.raises(yolo_ckpt.SettingsError, match=r"ckpt_attention=fuse is not known \(did you mean fused\?\)"):
        yolo_ckpt.plan(host_model("yolo26n.yaml", "meta"), imgsz=64, batch=1, ckpt="full", ckpt_attention="fuse")


def test_verify_says_why_bits_differ() -> None:
    model = host_model("yolo26n.yaml")
    sizes = {"imgsz": 64, "batch": 1}
    with pytest.raises(yolo_ckpt.ParityError, match=r"attention ran fused in model\.10.*ckpt_attention=stock"):
        yolo_ckpt.verify(model, yolo_ckpt.plan(model, ckpt="full", ckpt_attention="fused", **sizes), **sizes)
    yolo_ckpt.verify(model, yolo_ckpt.plan(model, ckpt="full", ckpt_attention="stock", **sizes), **sizes)


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_a_simulated_gpu_counts_its_own_kernel(dtype: torch.dtype | None) -> None:
    from yolo_ckpt.integration.conditions import Conditions

    model = host_model("yolo12n.yaml", "meta")
    peaks = {}
    for mode in ("stock", "auto"):
        plan = yolo_ckpt.plan(model, imgsz=2048, batch=1, ckpt="full", ckpt_attention=mode)
        request = Conditions(imgsz=2048, batch=1, budget_bytes=0, amp=dtype, device="cuda")
        peaks[mode] = request.simulated(model).step(plan).peak_bytes
    assert peaks["auto"] < 0.7 * peaks["stock"]
