"""Which parts of a model and its loss ran in a way that rounds otherwise than stock."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

from yolo_ckpt.hotspots.criteria import parts_of

MASK_LOSS, SEMANTIC_LOSS = "the mask loss", "the semantic loss"

_rounded: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()


def note(part: Any, name: str | None = None) -> None:
    """`part` ran so: a module of a model, which has its name there, or a criterion, with a `name` for people."""
    _rounded[part] = name


def rounded_parts(model: nn.Module) -> list[str]:
    """Names of the modules of `model` that ran so, and its loss if that did."""
    named = {id(part): name for part, name in _rounded.items()}  # what a criterion holds need not have a hash
    modules = [name for name, module in model.named_modules() if named.get(id(module), "") is None]
    losses = [named.get(id(loss)) for loss in parts_of(getattr(model, "criterion", None))]
    return [*modules, *dict.fromkeys(name for name in losses if name is not None)]
