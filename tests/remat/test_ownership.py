"""Which gradients may be overwritten."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from yolo_ckpt.remat import ownership


class Probe(torch.autograd.Function):
    """Notes, in backward, whether its gradient is taken for its own."""

    seen: list[bool] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        Probe.seen.append(ownership.is_exclusive(ownership.counts(g)))
        return g * 2


@pytest.fixture(autouse=True)
def fresh() -> None:
    ownership.exclusive_counts()
    Probe.seen.clear()


def test_passed_on_and_held_by_nobody() -> None:
    if ownership.exclusive_counts() is None:
        pytest.skip("this torch does not tell; nothing is overwritten")
    x = torch.ones(3, requires_grad=True)
    (Probe.apply(x) * 3).sum().backward()
    (Probe.apply(Probe.apply(x)) * 3).sum().backward()
    assert Probe.seen == [True] * 3


def test_held_by_somebody() -> None:
    x, kept = torch.ones(3, requires_grad=True), []

    a, b = Probe.apply(x), Probe.apply(x)
    ((a + b) * 3).sum().backward()  # the sum hands one tensor to both; the second to run may have it alone
    assert Probe.seen[0] is False
    Probe.seen.clear()

    hooked = Probe.apply(x)
    hooked.register_hook(kept.append)
    (hooked * 3).sum().backward()
    Probe.apply(x).backward(torch.ones(3))
    given = torch.ones(3)
    Probe.apply(x).backward(given)
    expanded = Probe.apply(x)
    expanded.sum().backward()
    part = Probe.apply(x)
    torch.cat([part, x.detach()]).mul(3).sum().backward()
    product = Probe.apply(x) * 3
    product.grad_fn.register_hook(lambda inputs, _: kept.append(inputs))
    product.sum().backward()
    assert Probe.seen == [False] * len(Probe.seen)
    assert len(Probe.seen) == 6
    assert torch.equal(given, torch.ones(3))
