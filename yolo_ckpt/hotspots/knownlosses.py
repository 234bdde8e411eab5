"""Telling a semantic segmentation loss whose results ours gives: by giving both the same problem.

As with the other parts (known.py), but a class that has one of the methods replaced is left alone unasked: what else
its method does, a log or a count, shows in no result.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.hotspots.semantic import IGNORED, BoundedSemanticLoss, semantic_loss

METHODS = ("forward", "_ce_loss", "_dice_loss", "_binary_dice_loss")
IMAGES, HEIGHT, WIDTH = 3, 24, 40

_known: dict[tuple[Any, ...], bool] = {}


def semantic_role(criterion: Any) -> type | None:
    """The role for a loss whose results `semantic_loss` gives; None for anything else. Asked once for each class and
    its constants, and those of its entropy, which the bands use as it is."""
    ce = getattr(criterion, "ce", None)
    if not isinstance(criterion, nn.Module) or not isinstance(ce, nn.Module) or not _is_whole(criterion):
        return None
    key = (*_told_by(criterion), *_told_by(ce))
    if key not in _known:
        with torch.enable_grad(), torch.autocast("cpu", enabled=False):
            _known[key] = _alike(criterion)
    return BoundedSemanticLoss if _known[key] else None


def _told_by(module: nn.Module) -> tuple[Any, ...]:
    """The class of a module, its constants, and which buffers it has."""
    constants = {name: v for name, v in module.__dict__.items() if isinstance(v, (bool, int, float, str))}
    return type(module), *sorted(constants.items()), *(k for k, v in module._buffers.items() if v is not None)


def _is_whole(criterion: nn.Module) -> bool:
    """True where it is of several classes of pixels or of one, and all methods are of one class, none of its own."""
    owners = {next((k for k in type(criterion).__mro__ if name in vars(k)), nn.Module) for name in METHODS}
    whole = len(owners) == 1 and nn.Module not in owners and not set(METHODS) & criterion.__dict__.keys()
    return whole and isinstance(getattr(criterion, "nc", None), int)


def _alike(criterion: Any) -> bool:
    """True where both give the same loss, parts and gradients up to rounding, with auxiliary logits and without."""
    trial = _trial(criterion)
    main, auxiliary, masks = _problem(trial.nc)

    def ours(preds: Any, batch: dict[str, Tensor]) -> Any:
        logits, extra = preds if isinstance(preds, tuple) else (preds, None)
        return semantic_loss(trial.ce, logits, extra, batch["semantic_mask"])

    try:
        return all(
            _same(_results(trial.forward, given, masks), _results(ours, given, masks))
            for given in ((main,), (main, auxiliary))
        )
    except (KeyError, RuntimeError):  # somebody's own, which wants more than a batch of masks on the CPU
        return False


def _trial(criterion: Any) -> Any:
    """A copy of `criterion` for the made problem; the weights of its entropy may have no content (in a simulation)."""
    ce = copy.deepcopy(criterion.ce).to_empty(device="cpu").float()
    for buffer in ce.buffers():
        buffer.copy_(torch.linspace(0.5, 1.5, buffer.numel()).view_as(buffer))
    trial = copy.copy(criterion)
    trial.__dict__["_modules"] = {**criterion._modules, "ce": ce}  # a copy of a module shares this with it
    return trial


def _problem(classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, auxiliary logits, and masks of three images; of the last no pixel counts."""
    g = torch.Generator().manual_seed(0)
    main = 3 * torch.randn(IMAGES, classes, HEIGHT // 8, WIDTH // 8, generator=g)
    auxiliary = 3 * torch.randn(IMAGES, classes, HEIGHT // 12, WIDTH // 12, generator=g)
    masks = torch.randint(max(classes, 2), (IMAGES, HEIGHT, WIDTH), generator=g).int()
    masks[torch.rand(masks.shape, generator=g) < 0.2] = IGNORED
    masks[-1] = IGNORED
    return main, auxiliary, masks


def _results(loss: Callable[..., Any], given: tuple[Tensor, ...], masks: Tensor) -> dict[str, Tensor]:
    """The loss, its parts and the gradients of the logits."""
    logits = tuple(t.clone().requires_grad_() for t in given)
    value, items = loss(logits if len(logits) > 1 else logits[0], {"semantic_mask": masks.clone()})
    gradients = torch.autograd.grad(value, logits)
    return {"value": value.detach(), **items, **{str(i): t for i, t in enumerate(gradients)}}


def _same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and torch.allclose(a[k], b[k], 1e-3, 1e-5 * float(a[k].abs().max())) for k in a
    )
