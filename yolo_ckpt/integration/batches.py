"""Made training batches: noise with random objects, laid out as the host's loaders lay them out for each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from yolo_ckpt.errors import RequestError

Batch = dict[str, Tensor]
Size = int | tuple[int, int]  # the side of square images, or height and width
HeightWidth = tuple[int, int]

MASK_RATIO = 4  # the host's default: ground-truth masks are a quarter of the image's side
SIDES = (0.01, 0.05)  # of an object, as shares of the image's side


def task_of(model: nn.Module) -> str:
    """The host's name for what the model is trained for, for example `detect`."""
    from ultralytics.nn.tasks import guess_model_task

    return str(guess_model_task(model) or "detect")  # it does not know RT-DETR's head


def made_batch(
    model: nn.Module, *, imgsz: Size, batch: int, objects: int, device: str, images_on: str | None = None
) -> Batch:
    """A batch of `batch` noise images (B, C, H, W) with `objects` objects each, for the task of `model`; H and W are
    both `imgsz` where that is one number.

    The same for the same arguments. All is on `device`, as the host's trainer puts it there, but for the images where
    `images_on` names another one (meta, for a simulation).

    Raises:
        RequestError: Nothing is known of the model's task.
    """
    task = task_of(model)
    if task not in _TARGETS:
        raise RequestError(f"{type(model).__name__}: there are no made targets for the task {task}")
    g = torch.Generator().manual_seed(0)
    height, width = height_width(imgsz)
    targets = _TARGETS[task](model, batch, (height, width), objects, g)
    channels = channels_of(model)
    images = torch.empty(batch, channels, height, width, device=images_on or device)
    if not images.is_meta:
        images.copy_(torch.rand(batch, channels, height, width, generator=g))
    texts = getattr(model, "txt_feats", None)  # of YOLO-World: one embedding per class
    if isinstance(texts, Tensor):
        targets["txt_feats"] = texts.expand(batch, -1, -1)
    return {"img": images, **{name: target.to(device) for name, target in targets.items()}}


def height_width(size: Size) -> tuple[int, int]:
    """Of images of this size."""
    return (size, size) if isinstance(size, int) else size


def channels_of(model: nn.Module) -> int:
    """Channels of the images that the model takes."""
    described = getattr(model, "yaml", None)
    return int(described.get("channels", 3)) if isinstance(described, dict) else 3


def _classes(model: Any) -> int:
    return int(getattr(model.model[-1], "nc", 0) or model.yaml["nc"])


def _boxes(model: nn.Module, batch: int, _: HeightWidth, objects: int, g: torch.Generator) -> Batch:
    n = batch * objects
    low, high = SIDES
    wh = low + (high - low) * torch.rand(n, 2, generator=g)
    xy = high + (1 - 2 * high) * torch.rand(n, 2, generator=g)
    return {
        "cls": torch.randint(_classes(model), (n, 1), generator=g).float(),
        "bboxes": torch.cat([xy, wh], 1),
        "batch_idx": torch.arange(batch).repeat_interleave(objects).float(),
    }


def _turned_boxes(model: nn.Module, batch: int, size: HeightWidth, objects: int, g: torch.Generator) -> Batch:
    made = _boxes(model, batch, size, objects, g)
    angles = torch.rand(batch * objects, 1, generator=g) * torch.pi / 2
    return {**made, "bboxes": torch.cat([made["bboxes"], angles], 1)}


def _masks(model: nn.Module, batch: int, size: HeightWidth, objects: int, g: torch.Generator) -> Batch:
    made = _boxes(model, batch, size, objects, g)
    height, width = (side // MASK_RATIO for side in size)
    numbers = torch.uint8 if objects < 256 else torch.int32  # as the host's loader
    masks = torch.zeros(batch, height, width, dtype=numbers)
    classes = torch.zeros(batch, height, width, dtype=torch.uint8)
    for i in range(batch * objects):
        x, y, w, h = (made["bboxes"][i] * torch.tensor([width, height, width, height])).tolist()
        rows, columns = slice(int(y - h / 2), int(y + h / 2) + 1), slice(int(x - w / 2), int(x + w / 2) + 1)
        masks[i // objects, rows, columns] = i % objects + 1
        classes[i // objects, rows, columns] = int(made["cls"][i])
    return {**made, "masks": masks, "sem_masks": classes}


def _keypoints(model: nn.Module, batch: int, size: HeightWidth, objects: int, g: torch.Generator) -> Batch:
    made = _boxes(model, batch, size, objects, g)
    count, dims = model.model[-1].kpt_shape  # type: ignore[index,union-attr]
    points = made["bboxes"][:, None, :2] + 0.02 * (torch.rand(batch * objects, count, 2, generator=g) - 0.5)
    seen = torch.full((batch * objects, count, dims - 2), 2.0)
    return {**made, "keypoints": torch.cat([points, seen], 2)}


def _labels(model: nn.Module, batch: int, _: HeightWidth, __: int, g: torch.Generator) -> Batch:
    return {"cls": torch.randint(_classes(model), (batch,), generator=g)}


def _class_map(model: nn.Module, batch: int, size: HeightWidth, _: int, g: torch.Generator) -> Batch:
    return {"semantic_mask": torch.randint(_classes(model), (batch, *size), generator=g).int()}  # as the host's loader


def _depth_map(_: nn.Module, batch: int, size: HeightWidth, __: int, g: torch.Generator) -> Batch:
    return {"depth": 1 + 9 * torch.rand(batch, *size, generator=g)}


_TARGETS: dict[str, Callable[[Any, int, HeightWidth, int, torch.Generator], Batch]] = {
    "detect": _boxes,
    "obb": _turned_boxes,
    "segment": _masks,
    "pose": _keypoints,
    "classify": _labels,
    "semantic": _class_map,
    "depth": _depth_map,
}
