"""Which parts of a model and its loss ran in a way that rounds otherwise than stock."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

from yolo_ckpt.hotspots.criteria import parts_of

MASK_LOSS = "the mask loss"

_rounded: weakref.WeakSet[Any] = weakref.WeakSet()


def note(part: Any) -> None:
    """`part`, a module or a criterion, ran so."""
    _rounded.add(part)


def rounded_parts(model: nn.Module) -> list[str]:
    """Names of the modules of `model` that ran so, and its loss if that did."""
    losses = parts_of(getattr(model, "criterion", None))
    names = [name for name, module in model.named_modules() if module in _rounded]
    noted = {id(part) for part in _rounded}  # what a criterion holds need not have a hash
    return [*names, MASK_LOSS] if any(id(loss) in noted for loss in losses) else names
