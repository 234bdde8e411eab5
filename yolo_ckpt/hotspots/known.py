"""Telling parts of the host whose results ours give: by giving both the same problem.

Names and code differ from one version of the host to the next, and users derive their own. A small made problem with
everything that decides between two ways of assigning (equal values, boxes below the stride, crowds, images without
boxes, padding) is solved by both, and only where every output is equal to the last bit does ours take over. Attention
blocks are told in the same way, up to rounding.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.hotspots.assigner import MASKS, BoundedAssigner, assign, can_bound
from yolo_ckpt.hotspots.attention import (
    FusedAreaAttention,
    FusedAttention,
    FusedLargeAreaAttention,
    FusedLargeAttention,
    FusedLargeMultihead,
    FusedMultihead,
)
from yolo_ckpt.hotspots.maskoverlap import BoundedMaskOverlap

SIDE, STRIDES = 384, (8, 16, 32)
IMAGES, BOXES, CLASSES = 3, 16, 3
METHODS = (
    "_forward", "get_box_metrics", "get_pos_mask", "get_targets", "iou_calculation", "pair_overlaps",
    "select_candidates_in_gts", "select_highest_overlaps", "select_topk_candidates",
)  # fmt: skip
RANKS = ((7, 7), (7, 2))  # topk and topk2

_log = logging.getLogger(__name__)
_known: dict[tuple[Any, ...], bool] = {}


def solves(check: Callable[[], bool]) -> bool:
    """What `check` says; False where it fails: what cannot solve the made problem is something else, whatever the
    reason, and stays as it is. The reason is in the log, at DEBUG."""
    try:
        return check()
    except Exception:
        _log.debug("a part that was to be bounded did not solve the made problem", exc_info=True)
        return False


def assigner_roles(assigner: Any) -> tuple[type, ...]:
    """The roles for a task-aligned assigner whose results `assign` gives, none for any other module; asked once for
    each class."""
    kind = type(assigner)
    if not all(callable(getattr(kind, name, None)) for name in METHODS):
        return ()
    key = tuple(getattr(kind, name) for name in METHODS)
    roles: tuple[type, ...] = (BoundedAssigner,)
    if MASKS in inspect.signature(kind.pair_overlaps).parameters:
        roles = (BoundedAssigner, BoundedMaskOverlap)
    if key not in _known:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            _known[key] = solves(lambda: all(_equal(assigner, roles[1:], *ranks) for ranks in RANKS))
    return roles if _known[key] else ()


def _equal(assigner: Any, roles: tuple[type, ...], topk: int, topk2: int) -> bool:
    """True where both solve the made problem alike."""
    trial, ours = (_trial(assigner, topk, topk2) for _ in range(2))
    given, extra = _problem(trial)
    ours.__class__ = type(type(ours).__name__, (*roles, type(ours)), {})
    ours.__dict__["anc_strides"] = trial.anc_strides
    if extra is None or not can_bound(ours, given[2]):
        return False
    expected = trial._forward(*(t.clone() for t in given), **extra)
    found = assign(ours, *given, **extra)
    return found is not None and all(
        a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(expected, found, strict=True)
    )


def _trial(assigner: Any, topk: int, topk2: int) -> Any:
    """A copy of `assigner` for the made problem; what it holds has no content where it is a simulation."""
    trial = copy.copy(assigner)
    trial.__dict__ = dict(assigner.__dict__)
    trial.__dict__.update(
        topk=topk, topk2=topk2, num_classes=CLASSES, bs=IMAGES, n_max_boxes=BOXES, stride=list(STRIDES),
        stride_val=STRIDES[1],
    )  # fmt: skip
    for name, value in trial.__dict__.items():
        if isinstance(value, Tensor):
            trial.__dict__[name] = torch.full_like(value, 0.1, device="cpu") if value.is_meta else value.cpu()
    return trial


def _problem(trial: Any) -> tuple[tuple[Tensor, ...], dict[str, Tensor] | None]:
    """Scores, boxes, anchors, labels, true boxes, which are valid; and what else the assigner's overlap takes, None
    where that is not known."""
    g = torch.Generator().manual_seed(0)
    points, trial.__dict__["anc_strides"] = _anchors()
    anchors, turned = points.shape[0], _is_turned(trial)
    sizes = torch.rand(IMAGES, BOXES, 2, generator=g) ** 3 * SIDE / 2 + 2
    centres = torch.rand(IMAGES, BOXES, 2, generator=g) * SIDE
    centres[:, :3] /= 20  # the first anchors are where equal values are chosen
    around = (torch.rand(IMAGES, anchors, 4, generator=g) * 3).round() * 16
    if turned:
        angle = torch.rand(IMAGES, BOXES, 1, generator=g)
        true = torch.cat([centres, sizes, angle], -1)
        found = torch.cat([points.expand(IMAGES, -1, -1), around[..., :2] + 8, around[..., 2:3] / 40], -1)
    else:
        true = torch.cat([centres - sizes / 2, centres + sizes / 2], -1).clamp_(0)
        found = torch.cat([points - around[..., :2], points + around[..., 2:]], -1)
    valid = torch.arange(BOXES)[None, :, None] < torch.tensor([0, BOXES - 3, BOXES])[:, None, None]
    labels = torch.randint(CLASSES, (IMAGES, BOXES, 1), generator=g).float()
    scores = (torch.rand(IMAGES, anchors, CLASSES, generator=g) * 4).round() / 4
    given = (scores, found, points, labels, true * valid, valid.float())
    return given, _extra(trial, true, anchors, g)


def _is_turned(trial: Any) -> bool:
    """True where boxes have an angle: upright ones have no fifth number to read."""
    try:
        trial.select_candidates_in_gts(torch.zeros(1, 2), torch.zeros(1, 1, 5), torch.zeros(1, 1, 1))
    except (RuntimeError, ValueError, AssertionError):
        return False
    return True


def _anchors() -> tuple[Tensor, Tensor]:
    """Points (A, 2) and strides (A,) of three levels."""
    points, strides = [], []
    for stride in STRIDES:
        centres = (torch.arange(SIDE // stride) + 0.5) * stride
        y, x = torch.meshgrid(centres, centres, indexing="ij")
        points.append(torch.stack([x, y], -1).view(-1, 2))
        strides.append(torch.full((points[-1].shape[0],), float(stride)))
    return torch.cat(points), torch.cat(strides)


def _extra(trial: Any, true: Tensor, anchors: int, g: torch.Generator) -> dict[str, Tensor] | None:
    """What the assigner's overlap takes besides boxes."""
    names = list(inspect.signature(trial.pair_overlaps).parameters)[3:]
    if not names:
        return {}
    if names == ["scores", "labels", "pd_coef", "mask_scale", "proto", MASKS]:
        return {
            "pd_coef": torch.randn(IMAGES, anchors, 4, generator=g),
            "mask_scale": torch.full((IMAGES, 1), 0.25),
            "proto": torch.randn(IMAGES, 4, SIDE // 4, SIDE // 4, generator=g),
            MASKS: torch.rand(IMAGES, BOXES, SIDE // 4, SIDE // 4, generator=g) < 0.5,
        }
    if names != ["pd_kpts", "gt_kpts"]:
        return None
    count = trial.sigmas.numel()
    places = torch.rand(IMAGES, anchors, count, 2, generator=g) * SIDE
    low, high = true[..., None, :2], true[..., None, 2:]
    points = low + (high - low) * torch.rand(IMAGES, BOXES, count, 2, generator=g)
    seen = (torch.rand(IMAGES, BOXES, count, 1, generator=g) * 2).round()
    return {"pd_kpts": places, "gt_kpts": torch.cat([points, seen], -1)}


def attention_role(module: nn.Module, mode: str) -> type | None:
    """The role for an attention block under `ckpt_attention=mode`; None for any other module, and for `stock`."""
    if mode == "stock":
        return None
    for names, always, where_large in _ATTENTION:
        if all(name in module.__dict__ or name in module._modules for name in names):
            key = (type(module).forward, always)
            if key not in _known:
                _known[key] = solves(functools.partial(_attends_alike, module, always))
            return (always if mode == "fused" else where_large) if _known[key] else None
    return None


_ATTENTION = (
    (
        ("area", "num_heads", "head_dim", "all_head_dim", "qkv", "proj", "pe"),
        FusedAreaAttention,
        FusedLargeAreaAttention,
    ),
    (("num_heads", "key_dim", "head_dim", "scale", "qkv", "proj", "pe"), FusedAttention, FusedLargeAttention),
    (("ma", "fc1", "fc2"), FusedMultihead, FusedLargeMultihead),
)


def _attends_alike(module: Any, role: type) -> bool:
    """True where both forwards give the same output and gradient up to rounding, with made weights."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        torch.manual_seed(0)
        trial = copy.deepcopy(module).to_empty(device="cpu").float().train()
        for tensor in (*trial.parameters(), *trial.buffers()):
            if tensor.is_floating_point():
                tensor.data.uniform_(0.1, 1.0).mul_(torch.randint_like(tensor, 2) * 2 - 1 if tensor.dim() > 1 else 1)
        given = _attention_problem(trial)
        stock = _output_and_gradient(trial, given)
        trial.__class__ = type(type(trial).__name__, (role, type(trial)), {})
        ours = _output_and_gradient(trial, given)
    return all(
        a.shape == b.shape and torch.allclose(a, b, 1e-3, 1e-4 * float(a.abs().max()))
        for a, b in zip(stock, ours, strict=True)
    )


def _attention_problem(trial: Any) -> Tensor:
    """A map for an attention block, or tokens (T, B, C) for one with tokens before images."""
    if not hasattr(trial, "ma"):
        return torch.randn(2, next(m.in_channels for m in trial.qkv.modules() if isinstance(m, nn.Conv2d)), 8, 16)
    return (
        torch.randn(2, trial.ma.embed_dim, 8, 16) if trial.ma.batch_first else torch.randn(128, 2, trial.ma.embed_dim)
    )


def _output_and_gradient(module: nn.Module, given: Tensor) -> tuple[Tensor, Tensor]:
    x = given.clone().requires_grad_()
    out = module(x)
    (gradient,) = torch.autograd.grad(out, x, torch.arange(out.numel(), dtype=out.dtype).sin().view_as(out))
    return out.detach(), gradient
