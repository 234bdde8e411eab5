"""How the images of a field are varied in training: Albumentations transforms for the pixels, and the host's own
arguments for what moves the labels.

Which does what, and why (ultralytics 8.4.190, albumentations 2.0.8):

1. Transforms of pixels go through the host's `augmentations=`. They are stock classes, so weights and args.yaml hold
   them as the host writes them, and load where this package is not installed.
2. Flips, shifts, scaling and turns by any angle are the host's own arguments (`flipud`, `translate`, `degrees`, ...):
   it moves boxes, polygons, rotated boxes and keypoints with them, also across the border of the image.
3. Turns by 90 degrees are `Transpose` together with both flips, which gives all eight orientations alike. Of
   Albumentations' exact turns it alone moves polygons and keypoints exactly: flips and rotations count pixels from 0 to
   w - 1 and put every point one pixel off.
4. Rotated boxes are mirrored, and not turned by 90 degrees: around a geometric Albumentations transform the host cuts
   the corners of polygons at the border, which shortens rotated boxes there. Its own `degrees=180` keeps them whole,
   but puts labels up to 1.4 pixels off their objects (it takes the corner of a pixel for its centre).
5. Plain boxes are not turned by small angles: the box around a turned box is larger than its object (17 % at 5
   degrees).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yolo_ckpt.errors import RequestError

ANY_ANGLE = ("segment", "obb", "semantic", "depth")  # tasks whose labels stay exact when turned by any angle
CHANNELS = (1, 3)  # of images that the host gives to Albumentations

_ARGUMENTS: dict[str, dict[str, float]] = {
    "aerial": {"flipud": 0.5, "fliplr": 0.5, "hsv_v": 0.2},  # the light is varied below
    # Left stays left in a body. Brightness is varied by gamma and contrast, not by hue and saturation.
    "medical": {"hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0, "fliplr": 0.0, "translate": 0.05, "scale": 0.1},
    # A fixed camera over a line: the light drifts, colours, sizes and places hardly do.
    "industrial": {"hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.2, "translate": 0.05, "scale": 0.1},
}
_DEGREES = {"medical": 5.0}


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """What is known of a training set.

    Attributes:
        task: The host's name of it.
        rect: Batches have shapes of their own, which a turn by 90 degrees would change.
        channels: Of the images.
        mirrored: What a mirror makes of a label is known: not so for keypoints without `flip_idx` in the data.
    """

    task: str
    rect: bool = False
    channels: int = 3
    mirrored: bool = True


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What a preset does to a training set.

    Attributes:
        transforms: Albumentations transforms, in order.
        arguments: Arguments of the host.
        left_out: What of the preset this training set cannot have, and why; one phrase each.
    """

    transforms: tuple[Any, ...]
    arguments: dict[str, float]
    left_out: tuple[str, ...] = ()


def check_task(name: str, task: str) -> None:
    """Raise `RequestError` where the host trains `task` without the transforms."""
    if task == "classify":
        raise RequestError(
            f"ckpt_augment={name}: the host trains classification with other transforms; leave the flag out, and use "
            f"auto_augment= and erasing="
        )


def augmentation(name: str, data: Labelled) -> Augmentation:
    """The preset `name` for a training set.

    Raises:
        RequestError: The host trains this task without the transforms.
    """
    check_task(name, data.task)
    arguments, left_out = dict(_ARGUMENTS[name]), []
    if name in _DEGREES and data.task in ANY_ANGLE:
        arguments["degrees"] = _DEGREES[name]
    transforms = _PIXELS[name]()
    if name == "aerial":
        turns, reason = _quarter_turns(data)
        left_out += [reason] if reason else []
        transforms = [*turns, *transforms]
    if not data.mirrored:
        arguments = {key: value for key, value in arguments.items() if key not in ("flipud", "fliplr") or not value}
    if data.channels not in CHANNELS:
        transforms = []
        left_out.append(f"no changes of pixels, which the host makes in images of 1 or 3 channels, not {data.channels}")
    return Augmentation(transforms=tuple(transforms), arguments=arguments, left_out=tuple(left_out))


def _quarter_turns(data: Labelled) -> tuple[list[Any], str]:
    """The transforms that turn by 90 degrees; without, what is left out and why."""
    if data.rect:
        return [], "no turns by 90 degrees, since rect=True batches keep their shape"
    if data.task == "obb":
        return [], "no turns by 90 degrees, in which the host cuts rotated boxes at the border"
    if not data.mirrored:
        return [], "no turns and flips of keypoints, since data= has no flip_idx"
    if data.channels not in CHANNELS:
        return [], "no turns by 90 degrees"
    return [albumentations().Transpose(p=0.5)], ""


def albumentations() -> Any:
    """The library, kept from asking the network for a newer one when it is imported, as the host keeps it."""
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import albumentations as library

    return library


def _aerial() -> list[Any]:
    """Haze, which lifts the dark and flattens the rest; another light; slight blur by motion and focus."""
    al = albumentations()
    return [
        al.RandomBrightnessContrast(brightness_limit=(0.05, 0.2), contrast_limit=(-0.3, -0.1), p=0.2),
        al.RandomBrightnessContrast(brightness_limit=(-0.15, 0.15), contrast_limit=(-0.15, 0.15), p=0.3),
        al.GaussianBlur(sigma_limit=(0.3, 0.8), p=0.1),
    ]


def _medical() -> list[Any]:
    """Local contrast, another tube or window, and noise that is the same in all channels of a grey image."""
    al = albumentations()
    return [
        al.CLAHE(clip_limit=(1.0, 3.0), tile_grid_size=(8, 8), p=0.3),
        al.RandomGamma(gamma_limit=(80, 125), p=0.4),
        al.GaussNoise(std_range=(0.01, 0.03), per_channel=False, p=0.2),
    ]


def _industrial() -> list[Any]:
    """Light that falls off along a line in any direction, sensor noise, defocus (a Gaussian one: a disc takes 60 times
    as long)."""
    al = albumentations()
    return [
        al.Illumination(mode="linear", intensity_range=(0.05, 0.2), effect_type="both", p=0.4),
        al.GaussNoise(std_range=(0.005, 0.02), per_channel=False, p=0.3),
        al.GaussianBlur(sigma_limit=(0.4, 1.2), p=0.2),
    ]


_PIXELS: dict[str, Callable[[], list[Any]]] = {"aerial": _aerial, "medical": _medical, "industrial": _industrial}
