"""Which parts of a model and its loss ran in a way that rounds otherwise than stock."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

MASK_LOSS = "the mask loss"

_rounded: weakref.WeakSet[Any] = weakref.WeakSet()


def note(part: Any) -> None:
    """`part`, a module or a criterion, ran so."""
    _rounded.add(part)


def rounded_parts(model: nn.Module) -> list[str]:
    """Names of the modules of `model` that ran so, and its loss if that did."""
    criterion = getattr(model, "criterion", None)
    losses = (criterion, *getattr(criterion, "__dict__", {}).values())
    names = [name for name, module in model.named_modules() if module in _rounded]
    return [*names, MASK_LOSS] if any(_is_noted(loss) for loss in losses) else names


def _is_noted(part: Any) -> bool:
    """True for a noted criterion; what cannot be referred to weakly, or has no hash, was never noted."""
    return not isinstance(part, nn.Module) and any(part is noted for noted in _rounded)
