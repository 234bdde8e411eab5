"""The forward of nn.Sequential, letting go of each intermediate map as soon as the next convolution has read it.

Calling a module keeps its argument alive until the call returns, so in the stock loop a convolution block allocates
its output beside an input that nobody reads any more. Blocks that are run directly take the input out of the hands of
their caller.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor, nn

from yolo_ckpt.remat.conv import conv_block_forward, conv_forward
from yolo_ckpt.remat.fused import hooked
from yolo_ckpt.remat.loss import run_network
from yolo_ckpt.remat.registry import state

LEAST_ROWS = 1 << 12  # of a network inside a loss: with fewer it holds less than its recording is worth


def sequential_forward(self: nn.Sequential, input: Any) -> Any:  # noqa: A002
    """`nn.Sequential.forward`; the caller's own reference to `input` is the only one that is kept."""
    if state.loss and isinstance(input, Tensor) and input.dim() == 2 and input.shape[0] >= LEAST_ROWS:
        return run_network(functools.partial(nn.Sequential.forward, self), input)
    box = [input]
    del input
    run_chain(self, box)
    return box[0]


def run_chain(chain: nn.Sequential, box: list[Any]) -> None:
    """Replace the single map in `box` by what `chain` makes of it."""
    for module in chain:
        out = None
        if not hooked(module):
            if type(module).forward is sequential_forward:
                run_chain(module, box)  # type: ignore[arg-type]
                continue
            if isinstance(module, ConvBlock):
                out = conv_block_forward(module, box)
        box[:] = [module(box[0]) if out is None else out]


class ConvBlock:
    """Mixed into the class of a convolution block that the engine may run."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """`self.act(self.bn(self.conv(x)))` for `x` (B, C, H, W)."""
        out = conv_block_forward(self, [args[0]]) if len(args) == 1 and not kwargs else None
        return super().forward(*args, **kwargs) if out is None else out  # type: ignore[misc]


class PlainConv:
    """Mixed into the class of an nn.Conv2d."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """`nn.Conv2d.forward` for `x` (B, C, H, W)."""
        out = conv_forward(self, args[0]) if len(args) == 1 and not kwargs else None
        return super().forward(*args, **kwargs) if out is None else out  # type: ignore[misc]
