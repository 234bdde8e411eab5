"""Masks in validation: predicted ones decoded in strips, true ones made when they are compared, and their overlaps.

The host holds all true masks of an image as floats, twice, all predicted ones as floats, and multiplies them: 2.4 GiB
for 1,000 objects and 300 detections on 512 x 512. Here:

1. A predicted mask is kept as the host keeps it, a byte for each pixel. The product that it comes from is made for a
   strip of rows at a time. Its bits are those of the whole product, except where there is one detection alone: that
   one is not cut.
2. True masks stay one map of numbered objects. The pixels of a predicted mask are counted by the number below them.
   Where masks have to be resized they are made some objects at a time, at least eight unless there are fewer: the
   kernels for a few channels round otherwise.
3. Intersections and areas are whole numbers, which floats hold exactly up to 2**24. So the overlaps have the host's
   bits, whichever way they are counted. Larger masks take the host's way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from yolo_ckpt.remat import is_on_cpu

AT_ONCE = 1 << 20  # pixels of all masks together whose numbers are counted
DECODED_ON_CPU = 1 << 20  # floats of all masks together: small strips stay in the processor's cache
DECODED_ON_CUDA = 1 << 24  # larger ones keep the device busy
MADE_AT_ONCE = 1 << 22  # floats of all true masks together, where they are made
FEW = 8  # objects
WORD = 8  # pixels
EXACT = 1 << 24  # pixels of one mask
EPS = 1e-7


def predicted_masks(proto: Tensor, coefficients: Tensor, boxes: Tensor, shape: tuple[int, int]) -> Tensor:
    """Masks (N, H, W) as numbers 0 and 1 of `coefficients` (N, K) times `proto` (K, H, W), inside `boxes` (N, 4) given
    in pixels of an image of `shape`."""
    (channels, height, width), count = proto.shape, coefficients.shape[0]
    masks = torch.empty(count, height, width, dtype=torch.uint8, device=coefficients.device)
    at_once = DECODED_ON_CPU if is_on_cpu(proto) else DECODED_ON_CUDA
    strips = max(min(count * height * width // at_once, height), 1) if count > 1 else 1
    for i in range(strips):
        rows = slice(height * i // strips, height * (i + 1) // strips)
        part = proto[:, rows].float().reshape(channels, -1)
        torch.gt((coefficients @ part).view(masks[:, rows].shape), 0, out=masks[:, rows])
    scale = (width / shape[1], height / shape[0])
    return _crop(masks, boxes * torch.tensor([[*scale, *scale]], device=boxes.device))


def _crop(masks: Tensor, boxes: Tensor) -> Tensor:
    """Zero what is outside."""
    left, top, right, bottom = boxes.unsqueeze(2).unbind(1)
    across, down = (torch.arange(n, dtype=boxes.dtype, device=boxes.device) for n in (masks.shape[2], masks.shape[1]))
    masks *= ((across >= left) & (across < right)).unsqueeze(1)
    masks *= ((down >= top) & (down < bottom)).unsqueeze(2)
    return masks


class ImageMasks(NamedTuple):
    """The true masks of an image.

    Attributes:
        masks: A map of numbered objects (H, W), or maps of single objects (all images' objects, H, W).
        objects: Which of those are the image's, (M,); with one map its number there, from 1.
        numbered: There is one map.
    """

    masks: Tensor
    objects: Tensor
    numbered: bool

    @classmethod
    def of(cls, masks: Tensor, index: int, image: Tensor, count: int, *, numbered: bool) -> ImageMasks:
        """Those of image `index`, which has `count` objects, of a batch with `masks` and the `image` of each object."""
        if numbered:
            return cls(masks[index], torch.arange(1, count + 1, device=masks.device), numbered)
        return cls(masks, (image == index).nonzero().squeeze(1), numbered)

    def some(self, first: int, last: int, size: tuple[int, int]) -> Tensor:
        """The masks of some objects, resized to `size`, as numbers 0 and 1, (last - first, *size)."""
        these = self.objects[first:last]
        found = (self.masks == these.view(-1, 1, 1)).float() if self.numbered else self.masks[these]
        if not self.is_of(size):
            found = functional.interpolate(found[None], size, mode="bilinear", align_corners=False)[0]
        return found.gt_(0.5)

    def parts(self, size: tuple[int, int]) -> Iterator[tuple[int, Tensor]]:
        """All of them, some at a time, each part with the place of its first."""
        count = self.objects.shape[0]
        each = max(MADE_AT_ONCE // (size[0] * size[1] * FEW), 1) * FEW
        for first in range(0, max(count - FEW + 1, 1), each):
            last = first + each
            yield first, self.some(first, last if count - last >= FEW else count, size)

    def is_of(self, size: tuple[int, int]) -> bool:
        """True where nothing has to be resized."""
        return tuple(self.masks.shape[-2:]) == size


def mask_overlaps(truth: ImageMasks, masks: Tensor) -> Tensor:
    """Intersection over union (M, N) of the true masks and the predicted `masks` (N, H, W), 0 or 1 each."""
    flat = masks.flatten(1)
    numbers = _numbers(truth, (masks.shape[1], masks.shape[2]))
    if numbers is None:
        shared, area, found = _by_product(truth, masks)
    else:
        shared, area, found = _by_number(numbers, truth.objects.shape[0], flat)
    union = (area[:, None] + found[None]) - shared
    return shared / (union + EPS)


def _numbers(truth: ImageMasks, size: tuple[int, int]) -> Tensor | None:
    """The number of the object that each pixel belongs to, 0 for none, (pixels,); None where two objects share one."""
    count = truth.objects.shape[0]
    if truth.numbered and truth.is_of(size):
        numbers = truth.masks.flatten()
        return torch.where((numbers >= 1) & (numbers <= count) & (numbers == numbers.round()), numbers, 0).long()
    numbers, pixels = torch.zeros(size[0] * size[1], dtype=torch.int64, device=truth.masks.device), 0
    for first, some in truth.parts(size):
        item, pixel = some.flatten(1).nonzero(as_tuple=True)
        numbers[pixel] = item + first + 1
        pixels += pixel.shape[0]
    return numbers if int(numbers.count_nonzero()) == pixels else None


def _by_number(numbers: Tensor, objects: int, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels that each object shares with each of `masks` (N, pixels), (M, N); those of the objects, (M,); and those
    of the masks, (N,)."""
    table = torch.zeros(masks.shape[0], objects + 1, dtype=torch.int64, device=masks.device)
    each = max(AT_ONCE // numbers.shape[0], 1)
    for counts, some in zip(table.split(each), masks.split(each), strict=True):
        for part, below in zip(some.split(AT_ONCE, 1), numbers.split(AT_ONCE), strict=True):
            row, pixel = _ones(part)
            found = torch.bincount(row * (objects + 1) + below[pixel], minlength=counts.numel())
            counts.add_(found.view_as(counts))
    area = torch.bincount(numbers, minlength=objects + 1)[1:]
    return table[:, 1:].T.float(), area.float(), table.sum(1).float()


def _ones(masks: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every 1 in `masks` (N, pixels). Most are 0, and are passed over eight at a time."""
    if masks.shape[1] % WORD or masks.storage_offset() % WORD or masks.stride() != (masks.shape[1], 1):
        row, pixel = masks.nonzero(as_tuple=True)
        return row, pixel
    row, word = masks.view(torch.int64).nonzero(as_tuple=True)
    which, byte = masks.view(masks.shape[0], -1, WORD)[row, word].nonzero(as_tuple=True)
    return row[which], word[which] * WORD + byte


def _by_product(truth: ImageMasks, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same, for objects that share pixels."""
    count, flat = truth.objects.shape[0], masks.flatten(1)
    shared, area = flat.new_zeros(count, flat.shape[0], dtype=torch.float32), flat.new_zeros(count, dtype=torch.float32)
    width = max(MADE_AT_ONCE // flat.shape[0], 1)
    for first, some in truth.parts((masks.shape[1], masks.shape[2])):
        these = slice(first, first + some.shape[0])
        area[these] = some.sum((1, 2))
        for part, below in zip(some.flatten(1).split(width, 1), flat.split(width, 1), strict=True):
            shared[these] += part @ below.float().T
    found = [part.sum(1, dtype=torch.float32) for part in flat.split(max(AT_ONCE // flat.shape[1], 1))]
    return shared, area, torch.cat(found)
