"""The private names and versions of the host, here alone. Written against ultralytics 8.4.190."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from yolo_ckpt.hotspots import parts_of
from yolo_ckpt.stages import unwrap

PREFIX = "Checkpoint: "
DEFAULT_IMGSZ = 640

# `_setup_train` calls `auto_batch` (when batch < 1) and then always `_build_train_pipeline`: by then the model is on
# its device, frozen, and its precision is decided; the EMA copy, the optimizer and the loaders come after.
SEAMS = ("auto_batch", "_build_train_pipeline")


def log(message: str, *, warning: bool = False) -> None:
    """One line through the host's logger, in its voice."""
    from ultralytics.utils import LOGGER, colorstr

    (LOGGER.warning if warning else LOGGER.info)(f"{colorstr(PREFIX)}{message}")


def host_version() -> str:
    """Version of the installed ultralytics."""
    import ultralytics

    return str(ultralytics.__version__)


def default_callbacks() -> dict[str, list[Callable[[Any], None]]]:
    """The callbacks that every new `YOLO` object starts with: those of the module that copies them, since the host's
    AMP check leaves another dictionary under the package's name."""
    from ultralytics.utils.callbacks import base

    return base.default_callbacks  # type: ignore[no-any-return]


def arguments() -> list[str]:
    """The command line as the host sees it: the list that sys.argv was when the host was imported."""
    from ultralytics.utils import ARGV

    return ARGV  # type: ignore[no-any-return]


def run_entrypoint(given: Sequence[str]) -> None:
    """What the `yolo` command does with the arguments `given`, without its page of help where one of them is wrong:
    the error says which."""
    from ultralytics.cfg import CLI_HELP_MSG, entrypoint
    from ultralytics.utils import LOGGER

    def is_said(record: logging.LogRecord) -> bool:
        return record.msg is not CLI_HELP_MSG

    original = getattr(entrypoint, "__wrapped__", entrypoint)  # without the flags of an enabled environment
    LOGGER.addFilter(is_said)
    try:
        call_entrypoint(original, given)
    finally:
        LOGGER.removeFilter(is_said)


def call_entrypoint(entrypoint: Callable[[], None], given: Sequence[str]) -> None:
    """Call the host's entry point with the arguments `given`."""
    line = arguments()
    before = list(line)
    line[:] = ["yolo", *given]
    try:
        entrypoint()
    finally:
        line[:] = before


@contextlib.contextmanager
def command_line_of_children(command: list[str]) -> Iterator[None]:
    """Start the trainings that the host gives a process of their own (in tuning) with `command`, which
    has to take what the host's own command takes; without effect where this version of the host has none."""
    from ultralytics.engine import trainer

    name = "_YOLO_CLI_COMMAND"
    before = getattr(trainer, name, None)
    if before is None:
        yield
        return
    setattr(trainer, name, command)
    try:
        yield
    finally:
        setattr(trainer, name, before)


@contextlib.contextmanager
def _quiet_and_offline() -> Iterator[None]:
    """Let the host check a data set without a word on standard output, and without fetching the fonts of its plots."""
    from ultralytics.data import utils

    original, level = utils.check_font, utils.LOGGER.level
    utils.check_font = lambda font="": None
    utils.LOGGER.setLevel("ERROR")
    try:
        yield
    finally:
        utils.check_font = original
        utils.LOGGER.setLevel(level)


def described_data(data: str) -> dict[str, Any]:
    """What the host reads out of a data set's YAML (or the folder around one), its paths resolved. Nothing is
    downloaded or unpacked: `data` has to be a local file or folder, or the name of a YAML that the host ships.

    Raises:
        Exception: Whatever the host says is wrong with it.
    """
    from ultralytics.data.utils import check_det_dataset

    with _quiet_and_offline():
        return check_det_dataset(data, autodownload=False)  # type: ignore[no-any-return]


def rect_shapes(shapes: Sequence[tuple[int, int]], imgsz: int, batch: int, stride: int) -> list[tuple[int, int]]:
    """Height and width of every training batch with `rect=True`, by the host's own rule, for images of these heights
    and widths."""
    from types import SimpleNamespace

    import numpy as np
    from ultralytics.data.base import BaseDataset

    data = SimpleNamespace(
        ni=len(shapes), batch_size=batch, labels=[{"shape": shape} for shape in shapes],
        im_files=[""] * len(shapes), imgsz=imgsz, stride=stride, pad=0.0,
    )  # fmt: skip
    BaseDataset.set_rectangle(data)
    return [(int(h), int(w)) for h, w in np.asarray(data.batch_shapes)]


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    """Let the host's losses switch autocast off around a part of theirs also on the meta device, which has none."""

    def autocast(enabled: bool, device: str = "cuda") -> Any:
        return contextlib.nullcontext() if device == "meta" else original(enabled, device)

    from ultralytics.utils import torch_utils

    original = torch_utils.autocast
    users = [m for n, m in list(sys.modules.items()) if n.startswith("ultralytics") and _has(m, "autocast", original)]
    for module in users:
        module.autocast = autocast  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in users:
            module.autocast = original  # type: ignore[attr-defined]


def _has(module: Any, name: str, value: Any) -> bool:
    return getattr(module, "__dict__", {}).get(name) is value


def missing_seams(trainer: Any) -> list[str]:
    """Methods of the trainer that the plugin needs and that this version of the host does not have."""
    return [name for name in SEAMS if not callable(getattr(trainer, name, None))]


def batch_per_device(trainer: Any) -> int:
    """Images per step on one device."""
    return max(int(trainer.batch_size) // max(int(trainer.world_size), 1), 1)


def largest_imgsz(trainer: Any) -> int:
    """The largest side that a training batch can have, with `multi_scale` counted as the host's loader does."""
    imgsz, stride, scale = int(trainer.args.imgsz), int(getattr(trainer, "stride", 32)), multi_scale(trainer)
    return int(imgsz * (1 + scale) + stride - 1) // stride * stride if scale > 0 else imgsz


def multi_scale(trainer: Any) -> float:
    """By which share the sides of training batches vary."""
    return float(getattr(trainer.args, "multi_scale", 0.0) or 0.0)


def set_imgsz(trainer: Any, imgsz: int) -> None:
    """Train at this size, and say so in the run folder's args.yaml."""
    set_arguments(trainer, {"imgsz": imgsz})


def set_arguments(trainer: Any, arguments: Mapping[str, Any]) -> None:
    """Train with these arguments, and say so in the run folder's args.yaml."""
    from ultralytics.utils import YAML

    for name, value in arguments.items():
        setattr(trainer.args, name, value)
    path = Path(trainer.save_dir, "args.yaml")
    if path.is_file():
        YAML.save(path, {**YAML.load(path), **arguments})


def default_argument(name: str) -> Any:
    """What the host trains with where the user does not say."""
    from ultralytics.utils import DEFAULT_CFG_DICT

    return DEFAULT_CFG_DICT[name]


def training_set(trainer: Any, batch: int) -> Any:
    """The run's training data as its loaders will have them with `batch` images at a time, without a cache; None where
    the trainer makes none. Making it draws random numbers."""
    from ultralytics.utils.patches import override_configs

    if not hasattr(trainer, "build_dataset"):
        return None
    with override_configs(trainer.args, overrides={"cache": False}) as trainer.args:
        return trainer.build_dataset(trainer.data["train"], mode="train", batch=batch)


def largest_sides(data: Any) -> tuple[float, float]:
    """Height and width of the largest batch as shares of imgsz: with `rect=True` every batch of the training set has a
    shape of its own."""
    if not getattr(data, "rect", False):
        return 1.0, 1.0
    height, width = max(data.batch_shapes.tolist(), key=lambda shape: shape[0] * shape[1])
    return height / data.imgsz, width / data.imgsz


def optimizer_name(trainer: Any, images: int) -> str:
    """The optimizer's class; before it is there, by the host's rule for `optimizer=auto` and `images` training images
    (8.4.190, `build_optimizer`)."""
    if getattr(trainer, "optimizer", None) is not None:
        return type(trainer.optimizer).__name__
    asked = str(trainer.args.optimizer)
    if asked.lower() != "auto":
        return asked
    return "MuSGD" if math.ceil(images / trainer.args.nbs) * trainer.epochs > 10000 else "AdamW"


def amp_dtype(trainer: Any) -> torch.dtype | None:
    """The half precision that the run trains with; None without."""
    if not trainer.amp:
        return None
    return torch.bfloat16 if trainer.args.amp == "bf16" else torch.float16


def is_out_of_memory(error: RuntimeError) -> bool:
    """True for the errors after which the host tries a smaller batch."""
    text = str(error)
    others = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR", "unable to find an engine")
    return "out of memory" in text.lower() or any(other in text for other in others)


def loss_names(trainer: Any) -> tuple[str, ...]:
    """Names of the parts of the loss, also before the host has asked its criterion for them."""
    if trainer.loss_names:
        return tuple(trainer.loss_names)
    model: Any = unwrap(trainer.model)
    if getattr(model, "criterion", None) is None:
        model.criterion = model.init_criterion()
    return next((tuple(p.loss_names) for p in parts_of(model.criterion) if hasattr(p, "loss_names")), ())


def scale_with(trainer: Any, backward: Callable[[torch.Tensor], None]) -> None:
    """Have `backward` run every backward pass of the host's loop, which begins at what the trainer's gradient scaler
    makes of the loss."""
    kind = type(trainer.scaler)

    class Scaler(kind):  # type: ignore[misc,valid-type]
        """The trainer's own, but for the backward pass."""

        def scale(self, outputs: Any) -> Any:
            """The scaled loss, or whatever was asked for."""
            scaled = super().scale(outputs)
            return _Backward(scaled, backward) if isinstance(scaled, torch.Tensor) else scaled

    for name in ("__name__", "__qualname__", "__module__"):
        setattr(Scaler, name, getattr(kind, name))
    trainer.scaler.__class__ = Scaler


class _Backward:
    """A tensor whose backward pass is another."""

    def __init__(self, tensor: torch.Tensor, backward: Callable[[torch.Tensor], None]) -> None:
        self._tensor = tensor
        self._run = backward

    def backward(self) -> None:
        """The backward pass."""
        self._run(self._tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)


def trains_quantized(args: Any) -> bool:
    """True for quantisation-aware training."""
    return getattr(args, "quantize", None) == 8  # the host has made one number of every spelling by then


def optimizer_tensors(trainer: Any) -> list[Any]:
    """Tensors in the optimizer's state."""
    optimizer = getattr(trainer, "optimizer", None)
    states = optimizer.state.values() if optimizer is not None else ()
    return [value for state in states for value in state.values()]


def ema_model(trainer: Any) -> Any:
    """The averaged model, or None."""
    return getattr(getattr(trainer, "ema", None), "ema", None)


def follows_mlflow(trainer: Any) -> bool:
    """True while the host's MLflow callback logs this run."""
    return bool(getattr(trainer, "_mlflow_active", False)) and "mlflow" in sys.modules


def tensorboard_writer() -> Any:
    """The writer of the host's TensorBoard callback, or None."""
    return getattr(sys.modules.get("ultralytics.utils.callbacks.tensorboard"), "WRITER", None)


class Scoring(NamedTuple):
    """What the host's validators make detections and masks with.

    Attributes:
        nms: The module in which they look up `non_max_suppression`.
        steps: What that calls to suppress upright boxes, and for overlaps of turned ones.
        detectors: Their classes.
        segmenter: The class among them that has masks.
        masks: The module in which that looks up `mask_iou`.
        decode: What makes predicted masks, unless they are to be as large as the image.
    """

    nms: Any
    steps: tuple[Any, Any]
    detectors: tuple[Any, ...]
    segmenter: Any
    masks: Any
    decode: Any


def scoring() -> Scoring:
    """As it is now."""
    import torchvision
    from ultralytics.models.yolo import detect, obb, pose, segment
    from ultralytics.utils import metrics, nms, ops

    segmenter = segment.SegmentationValidator
    detectors = (detect.DetectionValidator, segmenter, pose.PoseValidator, obb.OBBValidator)
    steps = (torchvision.ops.nms, metrics.batch_probiou)
    return Scoring(nms, steps, detectors, segmenter, sys.modules[segmenter.__module__], ops.process_mask)
