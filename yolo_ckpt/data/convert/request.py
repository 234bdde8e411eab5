"""What `yolo-ckpt convert` was asked, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from yolo_ckpt.data.convert.window import Choice
from yolo_ckpt.data.host import LEAST_SIDE_PX, MOST_PIXELS
from yolo_ckpt.errors import SettingsError
from yolo_ckpt.settings import options_in, whole_number

Task = Literal["detect", "segment", "obb"]
FORMATS = ("coco", "voc", "dota", "mask", "yolo")
_DEFAULTS = {
    "src": "", "dst": "", "task": "detect", "labels": "", "format_in": "", "mask": "auto", "classes": "",
    "difficult": "keep", "window": "", "percentile": "0.5,99.5", "bands": "", "tile": "", "overlap": "0.2",
    "min_visible": "0.3", "jpeg": "", "val": "0.2", "seed": "0", "group": "patient", "names": "auto", "workers": "",
    "format": "table",
}  # fmt: skip
_CHOICES = {
    "task": ("detect", "segment", "obb"), "format_in": ("", *FORMATS), "mask": ("auto", "instance", "semantic"),
    "difficult": ("keep", "drop"), "group": ("patient", "study", "series", "image"),
    "names": ("auto", "keep", "number"), "format": ("table", "json"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Request:
    """One conversion.

    Attributes:
        src: Folder or file.
        dst: New or empty folder.
        task: What the labels are for.
        labels: File or folder of the labels; None looks for them under `src`.
        without_labels: `labels=none`.
        format_in: Format of the labels; empty finds out.
        mask: What values of masks are.
        classes: Names to keep, in this order; empty keeps all.
        class_values: Values of semantic masks that they stand for, where `classes=` says them.
        drop_difficult: Objects marked difficult are left out.
        window: How values become grey levels.
        bands: Bands to keep, counted from 1; None leaves colour images alone, empty keeps all.
        tile: Side of the tiles in pixels; 0 does not tile.
        overlap: Least share of a tile that it shares with its neighbour.
        min_visible: Share of an object that a tile has to show to keep it.
        jpeg: Quality; 0 writes PNG.
        val: Share of the images for validation.
        seed: Of the split.
        group: What of DICOM stays together in the split.
        names: How files are called.
        workers: Processes.
        json: One JSON document on standard output.
    """

    src: Path
    dst: Path
    task: Task = "detect"
    labels: Path | None = None
    without_labels: bool = False
    format_in: str = ""
    mask: str = "auto"
    classes: tuple[str, ...] = ()
    class_values: tuple[int, ...] = ()
    drop_difficult: bool = False
    window: Choice = Choice()  # noqa: RUF009 - frozen
    bands: tuple[int, ...] | None = None
    tile: int = 0
    overlap: float = 0.2
    min_visible: float = 0.3
    jpeg: int = 0
    val: float = 0.2
    seed: int = 0
    group: str = "patient"
    names: str = "auto"
    workers: int = 0
    json: bool = False

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Request:
        """The request in `key=value` arguments.

        Raises:
            SettingsError: One of them is wrong.
        """
        options = _options(arguments)
        _check_together(arguments, options)
        classes, class_values = _classes(options["classes"])
        return cls(
            src=_source(options["src"]),
            dst=_target(options["dst"]),
            task=cast(Task, options["task"]),
            labels=_labels(options["labels"]),
            without_labels=options["labels"] == "none",
            format_in=options["format_in"],
            mask=options["mask"],
            classes=classes,
            class_values=class_values,
            drop_difficult=options["difficult"] == "drop",
            window=_window(options["window"], _pair("percentile", options["percentile"], 0, 100)),
            bands=_bands(options["bands"]),
            tile=_tile(options["tile"]),
            overlap=_share("overlap", options["overlap"], 0.9),
            min_visible=_share("min_visible", options["min_visible"], 1),
            jpeg=whole_number("jpeg", options["jpeg"], 1, 100) if options["jpeg"] else 0,
            val=_share("val", options["val"], 0.9),
            seed=whole_number("seed", options["seed"], 0, 2**32 - 1),
            group=options["group"],
            names=options["names"],
            workers=whole_number("workers", options["workers"], 1, 256) if options["workers"] else 0,
            json=options["format"] == "json",
        )


def _options(arguments: Sequence[str]) -> dict[str, str]:
    options = options_in(arguments, _DEFAULTS)
    for name, allowed in _CHOICES.items():
        if options[name] not in allowed:
            raise SettingsError(f"{name}={options[name]} is not known; use {', '.join(a for a in allowed if a)}")
    return options


def _check_together(arguments: Sequence[str], options: Mapping[str, str]) -> None:
    for name in ("overlap", "min_visible"):
        if not options["tile"] and any(a.lstrip("-").startswith(f"{name}=") for a in arguments):
            raise SettingsError(f"{name}={options[name]} is for tiles; give tile= too, or leave it out")


def _source(text: str) -> Path:
    if not text:
        raise SettingsError("src= is missing; give the folder (or the file) that holds the images")
    path = Path(text).expanduser()
    if not path.exists():
        raise SettingsError(f"src={text} is not there; give a folder, or a file")
    return path


def _target(text: str) -> Path:
    if not text:
        raise SettingsError("dst= is missing; give a new folder for the data set")
    path = Path(text).expanduser()
    try:
        taken = os.path.lexists(path) and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise SettingsError(f"dst={text} cannot be looked into ({error.strerror}); give a new folder") from error
    if taken:
        raise SettingsError(f"dst={text} is there already and is not empty; give a new or an empty folder")
    return path


def _labels(text: str) -> Path | None:
    if not text or text == "none":
        return None
    path = Path(text).expanduser()
    if not path.exists():
        raise SettingsError(f"labels={text} is not there; give a file, a folder, or none")
    return path


def _classes(text: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names, and the values of masks that stand before them as in `100:liver,200:lesion`."""
    given = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    pairs = [part.partition(":") for part in given]
    if not pairs or not all(value.isdecimal() and name.strip() for value, _, name in pairs):
        return tuple(given), ()
    return tuple(name.strip() for _, _, name in pairs), tuple(int(value) for value, _, _ in pairs)


def _window(text: str, percentiles: tuple[float, float]) -> Choice:
    if text in ("", "auto"):
        return Choice(percentiles=percentiles)
    if text in ("header", "percentile", "full"):
        return Choice(kind=cast(Literal["header", "percentile", "full"], text), percentiles=percentiles)
    try:
        first, second = (float(number) for number in text.split(","))
    except ValueError:
        first = second = math.nan
    if not (math.isfinite(first) and math.isfinite(second)):
        raise SettingsError(
            f"window={text} is not known; use percentile, full, LOW,HIGH for images, header or CENTER,WIDTH for DICOM"
        )
    return Choice(kind="given", numbers=(first, second), percentiles=percentiles)


def _pair(name: str, text: str, least: float, most: float) -> tuple[float, float]:
    try:
        low, high = (float(number) for number in text.split(","))
    except ValueError:
        low = high = math.nan
    if not least <= low < high <= most:
        raise SettingsError(f"{name}={text} is no pair of rising numbers from {least:g} to {most:g}, such as 0.5,99.5")
    return low, high


def _bands(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    if text == "all":
        return ()
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SettingsError(f"bands={text} is not known; use band numbers from 1 such as 4,3,2, or all")
    return tuple(int(part) for part in parts)


def _tile(text: str) -> int:
    return whole_number("tile", text, 4 * LEAST_SIDE_PX, math.isqrt(MOST_PIXELS)) if text else 0


def _share(name: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise SettingsError(f"{name}={text} is no share from 0 to {most:g}")
    return value
