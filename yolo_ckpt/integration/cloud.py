"""`gpu=cloud`: what fits managed cloud training, which runs the host as it is, without plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args, get_type_hints

from torch import nn

from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.fit import Fits
from yolo_ckpt.planning.cards import TOTAL_MIB, usable_bytes
from yolo_ckpt.reporting.progress import Tell, untold

GUESS = 8


@dataclass(frozen=True, kw_only=True)
class CloudGpu:
    """What fits one GPU type.

    Attributes:
        gpu_type: Its name.
        usable_bytes: What tensors can have; None where its memory is not known here.
        largest_batch: At the size that was asked for; 0 where not one image fits.
        largest_imgsz: At the batch that was asked for; 0 where none fits.
        fits: What was asked for does.
    """

    gpu_type: str
    usable_bytes: int | None
    largest_batch: int
    largest_imgsz: int
    fits: bool


@dataclass(frozen=True, kw_only=True)
class CloudFit:
    """The answer for every GPU type.

    Attributes:
        imgsz: The size that was asked for.
        batch: The batch that was asked for.
        gpus: In the order of the SDK, which is that of their price by the hour.
        command: What starts the training on the first that fits; empty where none does.
    """

    imgsz: int
    batch: int
    gpus: tuple[CloudGpu, ...]
    command: str


def gpu_types() -> list[str]:
    """The GPU types of managed training that the installed ultralytics-platform names.

    Raises:
        RequestError: It is not installed, or names none.
    """
    try:
        from ultralytics_platform.resources.training import Training
    except ImportError as error:
        raise RequestError("gpu=cloud needs the package ultralytics-platform; install it") from error
    named = get_type_hints(Training.start).get("gpu_type")
    found = [t for choice in (named, *get_args(named)) for t in get_args(choice) if isinstance(t, str)]
    if not found:
        raise RequestError("gpu=cloud: the installed ultralytics-platform names no GPU types; update it")
    return list(dict.fromkeys(found))


def fit_cloud(model: nn.Module, conditions: Conditions, arguments: Mapping[str, str], tell: Tell = untold) -> CloudFit:
    """What fits each GPU type without a plan, at the size and batch of `conditions` (its budget is not looked at), and
    the command for the cheapest that fits; `arguments` are those of the command besides these.

    Raises:
        RequestError: The GPU types are not known.
    """
    fits = Fits(model, conditions, tell)
    imgsz, batch = conditions.imgsz, conditions.batch
    needed = fits.peak_bytes("off", imgsz, batch)
    answers: dict[int, tuple[int, int]] = {}

    def answer(gpu_type: str) -> CloudGpu:
        if gpu_type not in TOTAL_MIB:
            return CloudGpu(gpu_type=gpu_type, usable_bytes=None, largest_batch=0, largest_imgsz=0, fits=False)
        usable = usable_bytes(gpu_type)
        if usable not in answers:
            within = fits.within(usable)
            answers[usable] = (
                within.largest_batch("off", imgsz, GUESS),
                within.largest_imgsz("off", 0, 0, batch),
            )
        most, largest = answers[usable]
        return CloudGpu(
            gpu_type=gpu_type, usable_bytes=usable, largest_batch=most, largest_imgsz=largest, fits=needed <= usable
        )

    gpus = tuple(answer(t) for t in gpu_types())
    cheapest = next((g.gpu_type for g in gpus if g.fits), None)
    given = {"imgsz": str(imgsz), "batch": str(batch)}
    words = [f"{name}={value}" for name, value in {**arguments, **given, "gpu_type": cheapest}.items()]
    return CloudFit(
        imgsz=imgsz, batch=batch, gpus=gpus, command=f"ul cloud train {' '.join(words)}" if cheapest else ""
    )
