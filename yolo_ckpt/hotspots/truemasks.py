"""True masks of the objects in a batch, made one by one when the assigner of YOLO26 segmentation asks for them.

The host makes a table of objects by pixels first: 250 MiB for 1,000 objects on 512 x 512, of a map of one number for
each pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

GET = "get_assigned_targets_and_loss"  # the host's method that makes the table


@dataclass(frozen=True, kw_only=True)
class TrueMasks:
    """Masks (B, G, H, W) of the objects of each image, without the table.

    `maps` are (B, h, w) with numbered objects, or (objects, h, w) where `places` (B, G) says whose is which, -1 for
    none; `size` is (H, W).
    """

    maps: Tensor
    count: int
    size: tuple[int, int]
    places: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """That of the table."""
        return torch.Size((self.maps.shape[0] if self.places is None else len(self.places), self.count, *self.size))

    def one(self, image: int, item: int) -> Tensor:
        """The mask (H, W) of one object."""
        if self.places is None:
            return self._resized(self.maps[image]) == item + 1
        place = self.places[image, item : item + 1]  # stays on its device
        return (self._resized(self.maps.index_select(0, place.clamp(min=0))[0]) > 0.5) & (place >= 0)

    def dense(self) -> Tensor:
        """The table."""
        images, count = self.shape[:2]
        if not count:
            return torch.zeros(self.shape, dtype=torch.bool, device=self.maps.device)
        return torch.stack([torch.stack([self.one(i, j) for j in range(count)]) for i in range(images)])

    def __getitem__(self, images: slice) -> TrueMasks:
        """The same of some images: the host goes on image by image where all do not fit."""
        if self.places is None:
            return replace(self, maps=self.maps[images])
        return replace(self, places=self.places[images])

    def _resized(self, one: Tensor) -> Tensor:
        if tuple(one.shape) == self.size:
            return one
        return functional.interpolate(one[None, None].float(), self.size, mode="nearest")[0, 0]


class BoundedTrueMasks:
    """A segmentation loss that gives its assigner true masks without the table."""

    device: torch.device
    overlap: bool
    stride: Tensor

    def get_assigned_targets_and_loss(self, preds: dict[str, Any], batch: dict[str, Any]) -> Any:
        """What the original's method does, with true masks made when they are asked for."""
        given = assignment_arguments(self, preds, batch)
        owner = next(kind for kind in type(self).__mro__ if kind is not BoundedTrueMasks and GET in kind.__dict__)
        return getattr(super(owner, self), GET)(preds, batch, **given)


def assignment_arguments(criterion: Any, preds: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    """What the original gives its assigner beside boxes and scores."""
    proto = (preds["proto"][0] if isinstance(preds["proto"], tuple) else preds["proto"]).detach()
    images, _, height, width = proto.shape
    image = batch["batch_idx"].view(-1).long().to(criterion.device)
    counts = torch.bincount(image, minlength=images)
    maps, count, places = batch["masks"].to(criterion.device), int(counts.max()), None
    if not criterion.overlap:
        within = torch.arange(len(image), device=image.device) - (counts.cumsum(0) - counts)[image]
        places = torch.full((images, count), -1, device=image.device)
        places[image, within] = torch.arange(len(image), device=image.device)
    scale = (height / (preds["feats"][0].shape[2] * criterion.stride[0])).expand(images, 1)
    return {
        "pd_coef": preds["mask_coefficient"].detach().permute(0, 2, 1),
        "mask_scale": scale,
        "proto": proto,
        "gt_masks": TrueMasks(maps=maps, count=count, size=(height, width), places=places),
    }


def gives_alike(criterion: Any) -> bool:
    """True where all that the original does is to call its parent with what `assignment_arguments` says, and to return
    the result, in a made problem."""
    function = getattr(type(criterion), GET)
    if "__class__" not in function.__code__.co_freevars:
        return False
    return all(_gives_alike(function, overlap, side) for overlap in (True, False) for side in (24, 48))


class _Parent:
    """Stands for the parent of the class that has the method."""

    def get_assigned_targets_and_loss(self, preds: Any, batch: Any, **extra: Any) -> Any:
        """What it was called with."""
        self.__dict__["seen"] = (preds, batch, extra)
        return self.__dict__["seen"]


class _Owner(_Parent):
    """Stands for the class that has the method."""


def _gives_alike(function: FunctionType, overlap: bool, side: int) -> bool:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(_Owner) if name == "__class__" else cell for name, cell in cells)
    theirs = FunctionType(function.__code__, function.__globals__, GET, function.__defaults__, closure)
    trial: Any = _Owner()
    trial.__dict__.update(overlap=overlap, device=torch.device("cpu"), stride=torch.tensor([8.0, 16.0, 32.0]))
    preds, batch = _problem(overlap, side)
    result = theirs(trial, preds, batch)
    if result is not trial.seen or result[0] is not preds or result[1] is not batch:
        return False
    extra, ours = result[2], assignment_arguments(trial, preds, batch)
    ours["gt_masks"] = ours["gt_masks"].dense()
    return extra.keys() == ours.keys() and all(
        extra[name].dtype == ours[name].dtype and torch.equal(extra[name], ours[name]) for name in ours
    )


def _problem(overlap: bool, side: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Three images of 96 px with 2, 0 and 3 objects, prototypes of 24 x 24, true masks of `side`."""
    g = torch.Generator().manual_seed(0)
    preds = {
        "feats": [torch.zeros(3, 1, 12, 12)],
        "mask_coefficient": torch.rand(3, 4, 144, generator=g),
        "proto": torch.rand(3, 4, 24, 24, generator=g),
    }
    high, shape = (4, (3, side, side)) if overlap else (2, (5, side, side))
    batch = {
        "batch_idx": torch.tensor([0.0, 0.0, 2.0, 2.0, 2.0]),
        "masks": torch.randint(high, shape, generator=g).to(torch.uint8),
    }
    return preds, batch
