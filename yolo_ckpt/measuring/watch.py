"""Following a forward pass from stage to stage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn


@contextlib.contextmanager
def watched(
    stages: Sequence[nn.Module], before: Callable[[int], None], after: Callable[[int, Any], None] | None = None
) -> Iterator[None]:
    """Inside, call `before(index)` where the forward pass of a stage begins and `after(index, output)` where it ends,
    by hooks that are gone afterwards."""
    hooks = []
    for index, stage in enumerate(stages):
        hooks.append(stage.register_forward_pre_hook(lambda *_, i=index: before(i)))
        if after is not None:
            hooks.append(stage.register_forward_hook(lambda _, __, out, i=index: after(i, out)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
