"""Telling losses whose results ours give: by giving both the same problem, as with the other parts (known.py).

A class that has one of the methods of a semantic loss replaced is left alone unasked: what else its method does, a log
or a count, shows in no result.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.hotspots.known import assigner_roles, solves
from yolo_ckpt.hotspots.maskoverlap import BoundedMaskOverlap
from yolo_ckpt.hotspots.masks import BoundedMaskLoss, mask_loss
from yolo_ckpt.hotspots.semantic import IGNORED, BoundedSemanticLoss, semantic_loss
from yolo_ckpt.hotspots.truemasks import GET, BoundedTrueMasks, gives_alike

METHODS = ("forward", "_ce_loss", "_dice_loss", "_binary_dice_loss")
IMAGES, HEIGHT, WIDTH = 3, 24, 40

_known: dict[tuple[Any, ...], bool] = {}


def criterion_roles(criterion: Any) -> tuple[type, ...]:
    """The roles for a loss; none for one that we know nothing of."""
    roles = (mask_role(criterion), true_masks_role(criterion), semantic_role(criterion))
    return tuple(role for role in roles if role is not None)


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


def true_masks_role(criterion: Any) -> type | None:
    """The role for a segmentation loss whose assigner can do without the table of true masks."""
    kind, given = type(criterion), getattr(criterion, "assigner", None)
    if not callable(getattr(kind, GET, None)) or BoundedMaskOverlap not in assigner_roles(given):
        return None
    key = (kind, getattr(kind, GET))
    if key not in _known:
        _known[key] = solves(functools.partial(gives_alike, criterion))
    return BoundedTrueMasks if _known[key] else None


def mask_role(criterion: Any) -> type | None:
    """The role for a segmentation loss whose mask loss is the one that ours stands for; None for anything else."""
    kind = type(criterion)
    key = tuple(getattr(kind, name, None) for name in ("calculate_segmentation_loss", "single_mask_loss"))
    if not all(map(callable, key)):
        return None
    if key not in _known:
        with torch.enable_grad(), torch.autocast("cpu", enabled=False):
            _known[key] = solves(lambda: all(_masks_alike(criterion, overlap) for overlap in (True, False)))
    return BoundedMaskLoss if _known[key] else None


def _masks_alike(criterion: Any, overlap: bool) -> bool:
    """True where both give the same loss and gradients up to rounding, for a made problem."""
    trial = copy.copy(criterion)
    trial.overlap = overlap
    given = _mask_problem(overlap)
    stock = _value_and_gradients(trial.calculate_segmentation_loss, given)
    ours = _value_and_gradients(functools.partial(mask_loss, overlap=overlap), given)
    return all(torch.allclose(a, b, 1e-3, 1e-5 * float(a.abs().max())) for a, b in zip(stock, ours, strict=True))


def _mask_problem(overlap: bool) -> tuple[Tensor, ...]:
    """Three images (the last without positives), 5 objects each, on maps of 24 x 32."""
    g = torch.Generator().manual_seed(0)
    images, anchors, objects, height, width = 3, 200, 5, 24, 32
    scale = torch.tensor([width, height, width, height]) * 4.0
    centres = torch.rand(images, objects, 2, generator=g)
    sizes = torch.rand(images, objects, 2, generator=g) / 2 + 0.05
    boxes = torch.cat([(centres - sizes / 2).clamp(0), (centres + sizes / 2).clamp(max=1)], -1) * scale
    given = torch.randint(objects, (images, anchors), generator=g)
    positive = torch.rand(images, anchors, generator=g) < torch.tensor([0.4, 0.1, 0.0])[:, None]
    target = torch.gather(boxes, 1, given[..., None].expand(-1, -1, 4))
    if overlap:
        masks = torch.randint(objects + 1, (images, height, width), generator=g).float()
    else:
        masks = torch.randint(2, (images * objects, height, width), generator=g).float()
    image = torch.arange(images).repeat_interleave(objects).view(-1, 1).float()
    proto = torch.randn(images, 8, height, width, generator=g)
    coefficients = torch.randn(images, anchors, 8, generator=g)
    return positive, masks, given, target, image, proto, coefficients, torch.tensor([height * 4.0, width * 4.0])


def _value_and_gradients(loss: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    *fixed, proto, coefficients, imgsz = (t.clone() for t in given)
    proto.requires_grad_()
    coefficients.requires_grad_()
    value = loss(*fixed, proto, coefficients, imgsz)
    return (value.detach(), *torch.autograd.grad(value, (proto, coefficients)))
