"""Detections and masks of a validation in bounded memory: roles for the run's validator.

Each stands for methods of the host, and is only put on a validator that has the host's own: one that a user's class
overrides stays, with everything that it calls.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from yolo_ckpt.hotspots.knownscoring import known_steps, masks_are_known
from yolo_ckpt.hotspots.maskiou import EXACT, ImageMasks, mask_overlaps, predicted_masks
from yolo_ckpt.hotspots.nms import Request, detections
from yolo_ckpt.integration import compat

SMALL_SCORES = 1 << 20  # of an image, up to which the host's rows are small
SMALL_MASKS = 1 << 22  # pixels of all masks of an image together
DEVICES = ("cpu", "cuda")
MASKS = ("_prepare_batch", "_process_batch", "update_metrics")  # methods that see masks

_signature = functools.cache(inspect.signature)


def bounded(validator: Any) -> type:
    """A subclass of the class of `validator` that works in bounded memory, wherever that has the host's methods; the
    class itself where it has none."""
    kind, host = type(validator), compat.scoring()
    roles: list[type] = []
    if all(_is_own(validator, name, host.segmenter) for name in ("postprocess", *MASKS)):
        roles.append(BoundedMasks)
    if any(_is_own(validator, "postprocess", detector) for detector in host.detectors):
        roles.append(BoundedDetections)
    return named_like(kind, type(kind.__name__, (*roles, kind), {})) if roles else kind


def _is_own(validator: Any, name: str, host: Any) -> bool:
    """True where a method of `validator` is the one of the class `host`."""
    return name not in vars(validator) and getattr(type(validator), name, None) is getattr(host, name)


def named_like(kind: type, derived: type) -> type:
    """`derived` under the names of `kind`."""
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(derived, name, getattr(kind, name))
    return derived


class BoundedDetections:
    """A validator whose NMS is bounded."""

    def postprocess(self, preds: Any) -> Any:
        """The host's, with our NMS under the name of its own."""
        module = compat.scoring().nms
        with _replaced(module, "non_max_suppression", bounded_nms(module.non_max_suppression)):
            return super().postprocess(preds)  # type: ignore[misc]


class BoundedMasks:
    """A validator that never holds all masks of an image as floats."""

    process: Callable[..., Any]
    args: Any

    def postprocess(self, preds: Any) -> Any:
        """The host's, with our masks for its own."""
        if self.process is not compat.scoring().decode:  # as large as the image, for files
            return super().postprocess(preds)  # type: ignore[misc]
        with _replaced(self, "process", bounded_decoder(self.process)):
            return super().postprocess(preds)  # type: ignore[misc]

    def _prepare_batch(self, si: int, batch: dict[str, Any]) -> Any:
        """The host's, with true masks that are made when they are compared where they would be large."""
        pictured = self.args.plots and getattr(self.args, "visualize", False)
        if not self._are_large(batch) or pictured:
            return super()._prepare_batch(si, batch)  # type: ignore[misc]
        above: Any = super(compat.scoring().segmenter, self)
        prepared = above._prepare_batch(si, batch)
        count, numbered = prepared["cls"].shape[0], bool(self.args.overlap_mask)
        true = ImageMasks.of(batch["masks"], si, batch["batch_idx"], count, numbered=numbered)
        return {**prepared, "masks": true}

    def _are_large(self, batch: dict[str, Any]) -> bool:
        """True where the masks of all objects would be."""
        height, width = batch["img"].shape[2:]
        pixels = height * width // (16 if self.process is compat.scoring().decode else 1)
        if batch["masks"].device.type not in DEVICES or batch["batch_idx"].shape[0] * pixels <= SMALL_MASKS:
            return False
        return int(batch["batch_idx"].unique(return_counts=True)[1].max()) * int(pixels) > SMALL_MASKS

    def _process_batch(self, preds: dict[str, Any], batch: dict[str, Any]) -> Any:
        """The host's, with our overlaps for its own."""
        true, found = batch["masks"], preds["masks"]
        if not isinstance(true, ImageMasks):
            return super()._process_batch(preds, batch)  # type: ignore[misc]
        host, count = compat.scoring(), true.objects.shape[0]
        size = (found.shape[1], found.shape[2])
        if size[0] * size[1] > EXACT or not masks_are_known(host.decode, host.masks.mask_iou, found.device):
            return super()._process_batch(preds, {**batch, "masks": true.some(0, count, size)})  # type: ignore[misc]
        given = {**preds, "masks": found[:, :0]}, {**batch, "masks": found.new_empty(count, 0, size[1])}
        with _replaced(host.masks, "mask_iou", lambda *_: mask_overlaps(true, found)):
            return super()._process_batch(*given)  # type: ignore[misc]


def bounded_nms(original: Callable[..., Any]) -> Callable[..., Any]:
    """Our NMS where it is asked for something large that it can do; else the host's."""

    @functools.wraps(original)
    def non_max_suppression(*given: Any, **named: Any) -> Any:
        asked = _asked(original, given, named)
        steps = None if asked is None else known_steps(original, *compat.scoring().steps)
        if asked is None or steps is None:
            return original(*given, **named)
        return detections(*asked, steps, late=_late)

    return non_max_suppression


def _late(limit_s: float) -> None:
    compat.log(f"NMS time limit {limit_s:.3f}s exceeded", warning=True)


def _asked(original: Callable[..., Any], given: Any, named: Any) -> tuple[Tensor, Request] | None:
    """The predictions and what is asked of them; None where the host's own way is right."""
    bound = _signature(original).bind(*given, **named)
    bound.apply_defaults()
    values = dict(bound.arguments)
    if not {"prediction", *Request._fields} <= set(values):
        return None
    prediction, request = values.pop("prediction"), Request(**{name: values.pop(name) for name in Request._fields})
    prediction = prediction[0] if isinstance(prediction, (list, tuple)) else prediction
    if any(values.values()) or prediction.shape[-1] == 6 or prediction.device.type not in DEVICES:
        return None  # boxes that are detections already, indices or a priori labels
    scores = (request.nc or prediction.shape[1] - 4) * prediction.shape[2]
    return (prediction, request) if scores > SMALL_SCORES or request.rotated else None


def bounded_decoder(original: Callable[..., Any]) -> Callable[..., Any]:
    """Our masks where they are large; else the host's."""

    @functools.wraps(original)
    def process(protos: Tensor, masks_in: Tensor, bboxes: Tensor, shape: Any) -> Any:
        pixels, device = masks_in.shape[0] * protos.shape[1] * protos.shape[2], protos.device
        large = pixels > SMALL_MASKS and device.type in DEVICES
        if large and masks_are_known(original, compat.scoring().masks.mask_iou, device):
            return predicted_masks(protos, masks_in, bboxes, shape)
        return original(protos, masks_in, bboxes, shape=shape)

    return process


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`value` under the `name` of what `owner` has there."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
