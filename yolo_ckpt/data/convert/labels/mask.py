"""Mask images: a value for each object (instance), or for each class (semantic)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import tifffile
from PIL import Image, ImageOps

from yolo_ckpt.data.convert import kinds, limits
from yolo_ckpt.data.convert.labels.items import Annotation, Item
from yolo_ckpt.data.convert.outlines import Outline, outline
from yolo_ckpt.data.convert.pil import opened
from yolo_ckpt.data.convert.problems import BrokenFileError, decoding

Mask = npt.NDArray[Any]
COLOUR = 1 << 24  # added to colours, so that none is taken for a small number
_BLACK, _SURE_SHARE = 32, 0.98  # grey levels that JPEG makes of 0, in so many of the pixels
_VOID = 255  # the border of Pascal VOC; the host ignores it as well


def read(path: Path) -> Mask:
    """The values of a mask (H, W): grey values, palette indices, or colours as `COLOUR` + 0xRRGGBB; black is 0.

    Raises:
        BrokenFileError: It cannot be read, or has no whole values.
    """
    with decoding("its mask"):
        values = _tiff(path) if kinds.kind_of(kinds.first_bytes(path)) == "tiff" else _image(path)
    if values.ndim == 3 and values.shape[2] == 2:
        values = values[..., 0]  # the other is transparency
    if values.ndim == 3:
        red, green, blue = (values[..., i].astype(np.uint32) for i in range(3))
        values = red << 16 | green << 8 | blue
        values[values > 0] += np.uint32(COLOUR)
    if values.dtype.kind == "f" and np.array_equal(values, np.floor(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iub" or (values.dtype.kind == "i" and values.min() < 0):
        raise BrokenFileError("its mask has values that are not 0, 1, 2, ...")
    return values.view(np.uint8) if values.dtype.kind == "b" else values


def _tiff(path: Path) -> Mask:
    values: Mask = np.squeeze(tifffile.imread(path))
    if values.ndim != 2 and (values.ndim != 3 or values.shape[2] not in (3, 4)):
        raise BrokenFileError(f"its mask has the shape {values.shape}; one picture (H, W) or (H, W, 3) is read")
    return values


def _image(path: Path) -> Mask:
    with opened(path) as image:
        limits.check_readable(*image.size)
        upright: Image.Image = ImageOps.exif_transpose(image)
        values = np.asarray(upright.convert("RGB") if upright.mode in ("RGBA", "CMYK") else upright)
        return _black_and_white(values) if image.format == "JPEG" else values


def _black_and_white(values: Mask) -> Mask:
    """A mask of a JPEG, which does not keep values: 0 and 255 are told from each other, others are not."""
    grey = values if values.ndim == 2 else values.max(axis=2)
    if float(((grey < _BLACK) | (grey > 255 - _BLACK)).mean()) < _SURE_SHARE:
        raise BrokenFileError("its mask is a JPEG of several values, which JPEG does not keep; save it as PNG")
    return np.where(grey > 127, np.uint8(255), np.uint8(0))


def annotation(path: Path, *, meaning: str, classes: Sequence[str], class_values: Sequence[int] = ()) -> Annotation:
    """The objects in a mask.

    Args:
        path: The file.
        meaning: `instance`: every value is an object; `semantic`: every value is a class, each connected part an
            object; `binary`: one value, a class.
        classes: Names of the values 1, 2, ... of a semantic mask; the first is that of all objects otherwise.
        class_values: The values that they are names of, where these are others.

    Raises:
        BrokenFileError: It cannot be read, or a value has no name.
    """
    values = read(path)
    height, width = values.shape
    notes: Counter[str] = Counter()
    names = dict(zip(class_values or range(1, len(classes) + 1), classes, strict=True))
    if class_values:
        names = {int(v): names.get(int(v), f"class_{v}") for v in np.unique(values)}
    first = classes[0] if classes else ""
    parts = _instances(values, first) if meaning == "instance" else _regions(values, meaning, first, names, notes)
    items = tuple(_item(name, found, notes) for name, found in parts)
    return Annotation(items=items, size=(width, height), notes=notes)


def _name_of(value: int, names: Mapping[int, str]) -> str:
    """The class of a semantic mask's value.

    Raises:
        BrokenFileError: There are fewer classes.
    """
    if value >= COLOUR:
        return text_of(value)
    if names and value not in names:
        raise BrokenFileError(
            f"its mask has the value {value}, classes= names {len(names)} (from 1); other values are named as "
            f"classes={value}:NAME,..."
        )
    return names.get(value, f"class_{value}")


def text_of(value: int) -> str:
    """A mask's value in words: a colour as `#rrggbb`."""
    return f"#{value - COLOUR:06x}" if value >= COLOUR else str(value)


def _instances(values: Mask, name: str) -> Iterator[tuple[str, Outline]]:
    from scipy import ndimage  # slow to import

    ids, dense = np.unique(values, return_inverse=True)
    dense = dense.reshape(values.shape).astype(np.int32) + (ids[0] != 0)
    for index, where in enumerate(ndimage.find_objects(dense), 1):
        if where is not None:
            found = outline(dense[where] == index, where[1].start, where[0].start)
            assert found is not None
            yield name or "object", found


def _regions(
    values: Mask, meaning: str, first: str, names: Mapping[int, str], notes: Counter[str]
) -> Iterator[tuple[str, Outline]]:
    present = [int(value) for value in np.unique(values) if value]
    if meaning == "binary" and len(present) > 1:
        raise BrokenFileError(
            f"its mask has {len(present)} values, others have one; say mask=instance or mask=semantic"
        )
    if len(present) > 1 and _VOID in present:
        present.remove(_VOID)
        notes["masks whose value 255 was ignored"] += 1
    for value in present:
        name = _name_of(value, names) if meaning == "semantic" else first or "object"
        count, numbered, stats, _ = cv2.connectedComponentsWithStats((values == value).astype(np.uint8))
        for index in range(1, count):
            x, y, width, height = (int(n) for n in stats[index][:4])
            found = outline(numbered[y : y + height, x : x + width] == index, x, y)
            assert found is not None
            yield name, found


def _item(name: str, found: Outline, notes: Counter[str]) -> Item:
    notes["holes of masks filled"] += found.holes
    notes["outlines with fewer points than pixels"] += int(found.simplified)
    return Item(name=name, rings=found.rings, box=found.box)
