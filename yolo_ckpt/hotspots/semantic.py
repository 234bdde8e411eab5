"""The loss of semantic segmentation, a band of image rows at a time.

The host stretches the logits to the size of the masks and copies them about six times (entropy, softmax, the valid
pixels, gradients): 1.8 GiB for one image of 2048 px with 19 classes. Here:

1. Entropy and Dice are made of sums over pixels, and sums can be taken over bands of rows. Dice is not linear in its
   sums, so the backward pass goes through the bands again, once the gradients of the sums are known.
2. Between the passes nothing is kept but the logits as they came, and the masks.
3. Stretching is linear, and apart for rows and columns: a band comes from the rows that it lies between, at any ratio.
4. Entropy and softmax are the host's operators in the host's precision, as autocast has it for a single pixel. Sums of
   bands are in fp32 and in another order than the host's: value and gradients differ by rounding.
5. Nothing waits for the device: pixels that do not count are multiplied by zero, not left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from yolo_ckpt.hotspots.rounding import SEMANTIC_LOSS, note

SMALL = 1 << 22  # logits at the size of the masks, of all images, up to which the host's way is taken
AT_ONCE = 1 << 21  # logits of a band, with its target: 8 MiB, six times over
TARGET = 2  # classes that a target is as large as
IN_SIMULATION = 2  # bands: all of them are alike
IGNORED = 255  # the host's value for pixels that do not count
OFF = -1e4  # a logit whose entropy is 0 to the last bit where the target is 0, in every precision
AUXILIARY = 0.4  # the host's weight of the auxiliary logits

Loss = tuple[Tensor, dict[str, Tensor]]


class BoundedSemanticLoss:
    """A semantic segmentation loss that never holds the logits of all pixels."""

    ce: Any

    def forward(self, preds: Any, batch: dict[str, Tensor]) -> Loss:
        """What the original's forward does, up to rounding: entropy and Dice of logits (B, C, h, w), or of a pair of
        main and auxiliary ones, for masks (B, H, W). Where there are few, it is the original that does it, with its
        bits."""
        logits, auxiliary = preds if isinstance(preds, tuple) else (preds, None)
        masks = batch["semantic_mask"]
        if logits.shape[1] * masks.numel() <= SMALL:
            return super().forward(preds, batch)  # type: ignore[misc,no-any-return]
        note(self, SEMANTIC_LOSS)
        return semantic_loss(self.ce, logits, auxiliary, masks)


def semantic_loss(ce: Any, logits: Tensor, auxiliary: Tensor | None, masks: Tensor) -> Loss:
    """The loss of all images, and its parts. `ce` sums the entropy of logits (pixels, C) for classes (pixels,), or that
    of a single class's logits (pixels,) for numbers from 0 to 1."""
    masks = masks.to(logits.device)
    way = _way(ce, logits, masks, dice=True)
    total, intersection, predicted, true, valid = _Sums.apply(logits, masks, way)
    weight = getattr(ce, "weight", None)
    if logits.shape[1] > 1 and weight is not None:
        valid = (true * weight.float()).sum().to(weight.dtype)
    valid = valid.clamp_min(1)
    entropy = total.to(way.entropy) / valid
    dice = (1.0 - (2.0 * intersection + 1.0) / (predicted + true + 1.0)).mean()
    extra = torch.zeros((), device=logits.device, dtype=entropy.dtype)
    if auxiliary is not None:
        way = _way(ce, auxiliary, masks, dice=False)
        (total,) = _Sums.apply(auxiliary, masks, way)
        extra = total.to(way.entropy) / valid * AUXILIARY
    items = {"ce_loss": entropy.detach(), "dice_loss": dice.detach(), "aux_loss": extra.detach()}
    return (entropy + dice + extra) * logits.shape[0], items


class _Way(NamedTuple):
    """How sums are taken: of which entropy, those of Dice too or not, and in which precisions the host stretches
    logits, takes the entropy and takes the softmax."""

    ce: Any
    dice: bool
    stretched: torch.dtype
    entropy: torch.dtype
    soft: torch.dtype

    def sums(self, logits: Tensor, target: Tensor) -> list[Tensor]:
        """The entropy of logits (1, C, H, W) for a target (H * W,); for Dice the probability of the true class and that
        of any class, by class (C,)."""
        if logits.shape[1] == 1:
            return self._of_one_class(logits.flatten(), target)
        flat = logits.permute(0, 2, 3, 1).flatten(0, 2)
        sums = [self.ce(flat.to(self.entropy), target)]
        if self.dice:
            valid = target != IGNORED
            place = target.masked_fill(~valid, 0)
            soft = functional.softmax(flat, 1, dtype=self.soft).float() * valid.unsqueeze(1)
            true = soft.gather(1, place.unsqueeze(1)).squeeze(1)
            sums += [soft.new_zeros(soft.shape[1]).scatter_add(0, place, true), soft.sum(0)]
        return sums

    def _of_one_class(self, logits: Tensor, target: Tensor) -> list[Tensor]:
        """The same for the logits (H * W,) of a single class, by pixel of 0 or 1: sums are numbers."""
        valid = target != IGNORED
        off, number = logits.masked_fill(~valid, OFF), target.masked_fill(~valid, 0).float()
        sums = [self.ce(off.to(self.entropy), number)]
        if self.dice:
            soft = logits.sigmoid() * valid.float()
            sums += [(soft * (target == 1).float()).sum(), soft.sum()]
        return sums


def _way(ce: Any, logits: Tensor, masks: Tensor, *, dice: bool) -> _Way:
    """With the precisions that the host's operators have for such logits, here and now."""
    pixel = logits.detach()[:1, :, :1, :1]
    if logits.shape[2:] != masks.shape[1:]:
        pixel = functional.interpolate(pixel, size=(1, 1), mode="bilinear", align_corners=False)
    target = torch.zeros(1, dtype=torch.int64, device=pixel.device)
    if logits.shape[1] == 1:
        entropy, soft = ce(pixel.flatten(), target.float()), pixel.sigmoid()
    else:
        entropy, soft = ce(pixel.flatten(1), target), functional.softmax(pixel, 1)
    return _Way(ce, dice, pixel.dtype, entropy.dtype, soft.dtype)


class _Band(NamedTuple):
    """Rows `top` to `bottom` of an image's mask, and `first` to `last` of its logits, between which they lie. The ends
    do not belong to them."""

    image: int
    top: int
    bottom: int
    first: int
    last: int


def _bands(logits: Tensor, masks: Tensor) -> list[_Band]:
    """All rows of all images."""
    given, (images, height, width) = logits.shape[2], masks.shape
    each = max(AT_ONCE // ((logits.shape[1] + TARGET) * width), 1)
    rows = []
    for top in range(0, height, each):
        bottom = min(top + each, height)
        first, last = top, bottom
        if given != height:  # a row more on both sides, as the device may place rows with another rounding
            first = max(int((top + 0.5) * given / height - 0.5) - 1, 0)
            last = min(int((bottom - 0.5) * given / height - 0.5) + 3, given)
        rows.append((top, bottom, first, last))
    bands = [_Band(i, *row) for i in range(images) for row in rows]
    return bands[:IN_SIMULATION] if logits.is_meta else bands


def _stretched(part: Tensor, band: _Band, given: int, size: Sequence[int]) -> Tensor:
    """The band's logits (1, C, last - first, w), of `given` rows in all, as part of an image of this size; C is the
    innermost in memory."""
    if given != size[0]:
        part = _rows(part, band, given, size[0])
    part = part.contiguous(memory_format=torch.channels_last)
    if part.shape[3] == size[1]:
        return part
    return functional.interpolate(part, size=(part.shape[2], size[1]), mode="bilinear", align_corners=False)


def _rows(part: Tensor, band: _Band, given: int, height: int) -> Tensor:
    """Each row of the band between the two that it lies between, placed as torch's bilinear interpolation does."""
    at = torch.arange(band.top, band.bottom, dtype=part.dtype, device=part.device)
    at = ((at + 0.5) * (given / height) - 0.5).clamp_min(0)
    above = at.long().clamp_max(given - 1)
    below = (above + 1).clamp_max(given - 1)
    share = (at - above).unsqueeze(1)
    return part.index_select(2, above - band.first) * (1 - share) + part.index_select(2, below - band.first) * share


class _Sums(torch.autograd.Function):
    """Sums over all pixels of all images: those of `_Way.sums`, and where these have Dice, the pixels of each class
    (C,), or of the single one, and all that count."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, masks: Tensor, way: _Way) -> tuple[Tensor, ...]:
        """Logits (B, C, h, w) and masks (B, H, W) to sums."""
        totals: list[Tensor] = []
        for band in _bands(logits, masks):
            sums = _of_band(band, logits, masks, way)
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        ctx.save_for_backward(logits, masks)
        ctx.way = way
        ctx.mark_non_differentiable(*totals[3:])
        return tuple(totals)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of the logits."""
        logits, masks = ctx.saved_tensors
        of_logits = torch.zeros_like(logits, dtype=_wide(logits.dtype))
        for band in _bands(logits, masks):
            _add_slope(band, logits, masks, ctx.way, grads, of_logits)
        return of_logits.to(logits.dtype), None, None


def _of_band(band: _Band, logits: Tensor, masks: Tensor, way: _Way) -> list[Tensor]:
    """The sums over a band."""
    target = _target(band, masks)
    part = logits[band.image, :, band.first : band.last].unsqueeze(0).to(_wide(logits.dtype))
    part = _stretched(part, band, logits.shape[2], masks.shape[1:]).to(way.stretched)
    sums = [s.to(_wide(s.dtype)) for s in way.sums(part, target)]
    return [*sums, *_true(target, logits.shape[1])] if way.dice else sums


def _true(target: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Pixels of a target (pixels,) that are of each class, or of the single one, and all that count."""
    valid = target != IGNORED
    if classes == 1:
        return (target == 1).sum(), valid.sum()
    counts = torch.zeros(classes, dtype=torch.int64, device=target.device)
    return counts.scatter_add_(0, target.masked_fill(~valid, 0), valid.long()), valid.sum()


def _add_slope(
    band: _Band, logits: Tensor, masks: Tensor, way: _Way, grads: Sequence[Tensor], of_logits: Tensor
) -> None:
    """Add a band's part to the gradient of the logits."""
    rows, target = slice(band.first, band.last), _target(band, masks)
    with torch.enable_grad():
        part = logits[band.image, :, rows].detach().unsqueeze(0).to(of_logits.dtype).requires_grad_()
        stretched = _stretched(part, band, logits.shape[2], masks.shape[1:]).to(way.stretched)
        sums = way.sums(stretched, target)
        del stretched
    (slope,) = torch.autograd.grad(sums, part, [g.to(s.dtype) for g, s in zip(grads, sums, strict=False)])
    of_logits[band.image, :, rows] += slope.squeeze(0)


def _target(band: _Band, masks: Tensor) -> Tensor:
    return masks[band.image, band.top : band.bottom].flatten().long()


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The precision of sums of such numbers."""
    return torch.promote_types(dtype, torch.float32)
