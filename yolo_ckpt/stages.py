"""Finding the stages of a model, by what they are (`f`, `i`, `type`), whoever made them."""

from __future__ import annotations

from typing import Any

from torch import nn

from yolo_ckpt.errors import RequestError
from yolo_ckpt.planning import StageFacts
from yolo_ckpt.remat import is_conv_block

_WRAPPED = ("module", "student_model")
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside wrappers: DistributedDataParallel (`module`), a distillation pair (`student_model`)."""
    while not _is_staged(model):
        inner = next((m for m in (getattr(model, n, None) for n in _WRAPPED) if isinstance(m, nn.Module)), None)
        if inner is None:
            break
        model = inner
    return model


def _is_staged(model: nn.Module) -> bool:
    inner = getattr(model, "model", None)
    return (
        isinstance(inner, nn.Sequential) and len(inner) > 0 and all(hasattr(m, "f") and hasattr(m, "i") for m in inner)
    )


def stages_of(model: nn.Module) -> list[nn.Module]:
    """The stages of a model, in order.

    Raises:
        RequestError: The model is not made of stages.
    """
    model = unwrap(model)
    if not _is_staged(model):
        raise RequestError(
            f"{type(model).__name__} has no stages: a plan needs a model whose `model` is an nn.Sequential of modules "
            f"with `f` and `i`, as Ultralytics builds them"
        )
    return list(model.model)  # type: ignore[arg-type]


def facts_of(model: nn.Module) -> list[StageFacts]:
    """What planning has to know of each stage."""
    stages = stages_of(model)
    backbone = _backbone_length(unwrap(model), stages)
    last = len(stages) - 1
    skipping = _skipping(stages)
    return [
        StageFacts(
            index=i,
            kind=stage.__class__.__name__,
            part="head" if i == last else "backbone" if i < backbone else "neck",
            convolves=any(isinstance(m, _CONVOLUTIONS) for m in stage.modules()),
            is_conv_block=is_conv_block(stage.__class__),
            skips=i in skipping,
            obstacle=_obstacle(stage),
        )
        for i, stage in enumerate(stages)
    ]


def _skipping(stages: list[nn.Module]) -> set[int]:
    """Positions of the stages whose output another stage than the next reads."""
    found = set()
    for position, stage in enumerate(stages):
        reads: Any = stage.f
        named = [reads] if isinstance(reads, int) else reads
        found |= {position + f if f < 0 else f for f in named} - {position - 1}
    return found


def _backbone_length(model: nn.Module, stages: list[nn.Module]) -> int:
    """How many stages belong to the backbone: by the model's own description, else up to the first upsampling."""
    described = getattr(model, "yaml", None)
    if isinstance(described, dict) and described.get("backbone"):
        return len(described["backbone"])
    return next((i for i, s in enumerate(stages) if isinstance(s, nn.Upsample)), len(stages) - 1)


def _obstacle(stage: nn.Module) -> str:
    """Why the engine cannot run this stage; empty when it can."""
    if "forward" in stage.__dict__:
        return "its forward was replaced on the object (a fused model, or another plugin)"
    if stage._compiled_call_impl is not None:
        return "it is compiled"
    return ""
