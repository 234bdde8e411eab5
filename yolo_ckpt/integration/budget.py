"""What a run may use, and what it uses besides the model's step: the optimizer's state and the averaged model."""

from __future__ import annotations

from typing import Any

import psutil
import torch
from torch import nn

from yolo_ckpt.settings import Settings, check_budget

DEFAULT_SHARE = 0.9

# Tensors of the size of the parameters that the host's optimizers keep.
_STATES = {
    "SGD": 1, "MuSGD": 1, "RMSprop": 2, "Adam": 2, "AdamW": 2, "Adamax": 2, "NAdam": 2, "RAdam": 2,
}  # fmt: skip
MOST_STATES = 2


def budget_bytes(settings: Settings, device: torch.device) -> int | None:
    """The bytes that a step may have alive on `device`: those asked for, or a share of what is free; None where nothing
    was asked for and memory is not the device's own (the CPU)."""
    asked = None if settings.ckpt_budget is None else check_budget(settings.ckpt_budget)
    if asked is not None and asked >= 1:
        return int(asked)
    if asked is None and device.type != "cuda":
        return None
    return int(free_bytes(device) * (DEFAULT_SHARE if asked is None else asked))


def free_bytes(device: torch.device) -> int:
    """Memory that this process can still have on `device`, with what it has there already."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device))
    return int(psutil.virtual_memory().available)


def optimizer_bytes(model: nn.Module, name: str) -> int:
    """The state of the host's optimizer `name` for the trainable parameters; the most of any where it is not known."""
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return trained * _STATES.get(name, MOST_STATES)


def extra_bytes(model: nn.Module, optimizer: str) -> int:
    """What a run of the host has alive besides its step: the state of the optimizer of that name, and the averaged
    model."""
    return optimizer_bytes(model, optimizer) + average_bytes(model)


def average_bytes(model: nn.Module) -> int:
    """The host's averaged copy of the model."""
    return sum(t.nbytes for t in (*model.parameters(), *model.buffers()))


def objects_per_image(labels: list[Any], mosaic: bool) -> int:
    """Objects to reckon with in the fullest image of a batch: those of the fullest image, or with mosaic those of four
    average ones, if that is more. `labels` are those of the host's data set."""
    counts = [len(label.get("cls", ())) for label in labels]
    if not counts:
        return 1
    mean = sum(counts) / len(counts)
    return max(round(4 * mean) if mosaic else 0, *counts, 1)
