"""The loop over a model's stages, letting go of each stage's output as soon as its last reader has it.

The host keeps a list of the outputs that later stages read until the forward pass ends: at full resolution about a
tenth of what is alive at its end. And the gradient that a concatenation hands back to one of its inputs is a part of
the gradient of all, which stays alive in whole until the earlier stage has its turn; here that part is copied out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.remat.blocks import is_concat

COPY_MIN_BYTES = 1 << 20  # less than this in other parts of a gradient is not worth a copy

# What the code of the loop that this one stands for refers to. A host whose loop does anything else has other names
# in it, and keeps its own loop.
_LOOP_NAMES = frozenset(
    """
    frozenset max model f isinstance int _profile_one_layer i save append torch nn functional adaptive_avg_pool2d
    squeeze unbind cat
    """.split()  # noqa: SIM905 (a list reads worse)
)


def is_known_loop(function: Any) -> bool:
    """True when `function` is a stage loop that `stage_loop` does the work of."""
    code = getattr(function, "__code__", None)
    return code is not None and frozenset(code.co_names) == _LOOP_NAMES and "embed" in code.co_varnames


def stage_loop(stages: nn.Sequential, x: Any) -> Any:
    """What the last of `stages` makes of images `x` (B, C, H, W); each stage's `f` names the stages that it reads."""
    sources = [_sources(stage, position) for position, stage in enumerate(stages)]
    readers = {s: position for position, read in enumerate(sources) for s in read}  # the last one stays
    counts = Counter(s for read in sources for s in read)
    made: dict[int, Any] = {}
    for position, stage in enumerate(stages):
        if stage.f != -1:
            read = [x if s == position - 1 else made[s] for s in sources[position]]
            if is_concat(stage.__class__):  # type: ignore[arg-type]
                read = [
                    _with_own_gradient(r) if counts[s] > 1 else r for s, r in zip(sources[position], read, strict=True)
                ]
            x = read[0] if isinstance(stage.f, int) else read
            del read
        for source in sources[position]:
            if readers[source] == position:
                made.pop(source, None)
        x = stage(x)
        if readers.get(position, 0) > position + 1:
            made[position] = x
    return x


def _with_own_gradient(x: Any) -> Any:
    """`x`, which other stages read too, and whose gradient from this reader does not hold that of others in memory. The
    gradients of its readers are added up, so the layout of this one shows nowhere."""
    return _OwnGradient.apply(x) if torch.is_grad_enabled() and getattr(x, "requires_grad", False) else x


class _OwnGradient(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, g: Tensor) -> Tensor:
        return g.clone() if g.untyped_storage().nbytes() - g.nbytes >= COPY_MIN_BYTES else g


def _sources(stage: Any, position: int) -> list[int]:
    """Positions of the stages that this one reads; the first stage reads the images, -1."""
    named = [stage.f] if isinstance(stage.f, int) else stage.f
    return [position + s if s < 0 else s for s in named]
