"""`batch=-1`, `batch=0.7` and `imgsz=max`: the size of a step chosen together with its plan.

The host's AutoBatch fits a line through forward passes without the loss. Here the whole step is simulated, so the
choice also counts the loss, works without a GPU, and needs no memory.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import torch
from torch import nn

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.auto import Search, auto_plan
from yolo_ckpt.integration.clock import Estimated, StageTimes
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.fit import Fits
from yolo_ckpt.planning.throughput import best_batch
from yolo_ckpt.planning.times import step_ms

MOST = 1024  # as the host's AutoBatch
GUESS = 8
PROBES = 3  # batches that a planning problem is made for
GROWTHS = 4  # larger batches that are tried by simulation
FASTER = 1.005  # what a larger batch has to gain
NEAR = 0.2  # of a probed batch: within that its problem holds


def choose_batch(
    model: nn.Module,
    conditions: Conditions,
    *,
    ckpt: str,
    most: int,
    device: torch.device,
    times: StageTimes | None = None,
) -> int:
    """The batch, `most` at most, that trains the most images per second within the budget; for a fixed mode `ckpt` the
    largest that fits. `conditions.batch` is not looked at.

    Raises:
        BudgetInfeasibleError: Not one image fits.
    """
    one = replace(conditions, batch=1)
    if ckpt != "auto":
        batch = Fits(model, one.on(device, model)).largest_batch(ckpt, one.imgsz, GUESS, below=most + 1)
        return batch or _refused(model, one, device)
    batch = _fastest(model, one, most, one.budget_bytes - one.on(device, model).extra_bytes, times)
    while batch > 1:
        wanted = replace(one, batch=batch)
        with contextlib.suppress(BudgetInfeasibleError):
            share = auto_plan(model, wanted.on(device, model), times).plan.added_share or 0.0
            return _grown(model, one, batch, share, most, device, times)
        batch -= max(batch // 16, 1)  # the problem was scaled from another batch: what counts is the simulated step
    return batch


def _grown(
    model: nn.Module,
    one: Conditions,
    batch: int,
    share: float,
    most: int,
    device: torch.device,
    times: StageTimes | None,
) -> int:
    """A larger batch than `batch`, whose plan adds `share` to its step, as long as plans that are simulated for it
    train more images per second: what parts of the loss need does not grow in step with the images."""
    known = times if times is not None else Estimated(one.simulated(model).work(), 1)
    rate = batch / (step_ms(known.at(batch)) * (1 + share))
    for _ in range(GROWTHS):
        larger = min(batch + max(batch // 16, 1), most)
        if larger == batch:
            break
        try:
            found = auto_plan(model, replace(one, batch=larger).on(device, model), times).plan.added_share or 0.0
        except BudgetInfeasibleError:
            break
        faster = larger / (step_ms(known.at(larger)) * (1 + found))
        if faster < FASTER * rate:
            break
        batch, rate = larger, faster
    return batch


def _fastest(model: nn.Module, one: Conditions, most: int, room: int, times: StageTimes | None) -> int:
    """The batch with the most images per second by the planning problem, which is that of a batch near it: what a step
    needs does not quite grow with its images, since small tensors are kept whatever the plan."""
    batch = min(Fits(model, one).largest_batch("off", one.imgsz, GUESS), most) or 1
    for _ in range(PROBES):
        search = Search(model, replace(one, batch=batch), times)
        found = best_batch(search.problem_at, lambda n, s=search: step_ms(s.times.at(n)), room, most) or 1  # type: ignore[misc]
        if abs(found - batch) <= NEAR * batch:
            return found
        batch = found
    return batch


def _refused(model: nn.Module, one: Conditions, device: torch.device) -> int:
    """Raise with what would fit, where not one image does under a fixed mode; a plan may still fit."""
    auto_plan(model, one.on(device, model))
    return 1


def choose_imgsz(model: nn.Module, conditions: Conditions, *, ckpt: str, stride: int, device: torch.device) -> int:
    """The largest image side, a multiple of `stride`, that fits with `conditions.batch` images: with the tightest plan
    for `auto`, else with the fixed mode. `conditions.imgsz` is not looked at.

    Raises:
        BudgetInfeasibleError: Not even the smallest fits.
    """
    mode = "full" if ckpt == "auto" else ckpt
    largest = 0
    for _ in range(2):  # what the device takes for itself is known once there is a size
        known = replace(conditions, imgsz=largest or 2 * stride).on(device, model)
        largest = Fits(model, known).largest_imgsz(mode, 0, 0, conditions.batch) // stride * stride
        if device.type != "cuda":
            break
    if largest < 2 * stride:
        auto_plan(model, replace(conditions, imgsz=2 * stride).on(device, model))
    return max(largest, 2 * stride)
