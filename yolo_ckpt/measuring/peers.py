"""What else saves activation memory in PyTorch, put on a staged model as its documentation says: for comparison."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

Forward = Callable[[Any], Any]


def checkpoint_stages(stages: Sequence[nn.Module]) -> None:
    """Run every stage under `torch.utils.checkpoint`, non-reentrant. It runs each stage a second time, so the running
    statistics of batch normalisation move twice (pytorch#96136)."""
    for stage in stages:
        stage.forward = functools.partial(checkpoint, stage.forward, use_reentrant=False)


def saved_on_cpu(forward: Forward, *, pinned: bool) -> Forward:
    """`forward` with everything that autograd saves moved to host memory, and back when backward asks."""

    def moved(batch: Any) -> Any:
        with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
            return forward(batch)

    return moved


def compiled(model: Any, *, memory_budget: float) -> Forward:
    """The forward pass and loss of a model of the host with its stages compiled, keeping a share `memory_budget` of the
    activations (`torch._functorch.config.activation_memory_budget`). The budget is set while it compiles, which is in
    the first two calls. As the host does with `compile=True`, the loss stays outside."""
    from torch._functorch import config

    fast: Any = torch.compile(model)

    def forward(batch: Any) -> Any:
        with config.patch(activation_memory_budget=memory_budget):
            return model.loss(batch, fast(batch["img"]))

    return forward
