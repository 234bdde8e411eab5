"""`imgsz=native`: the longest side that there is in the data set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_ckpt.data.sizes import image_sizes
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration import compat, hostdata

STRIDE = 32  # of the most models; the host rounds up to the model's own


@dataclass(frozen=True, kw_only=True)
class Native:
    """The sizes of a data set's images.

    Attributes:
        width: Of the image with the longest side, in pixels.
        height: Of that image.
        path: That image.
        shortest: The shortest of the images' longer sides.
        images: How many could be read.
        unread: How many could not, which the host leaves out as well.
    """

    width: int
    height: int
    path: str
    shortest: int
    images: int
    unread: int

    @property
    def imgsz(self) -> int:
        """The longest side, rounded up to the stride."""
        return math.ceil(max(self.width, self.height) / STRIDE) * STRIDE

    @property
    def line(self) -> str:
        """What was found."""
        line = (
            f"imgsz=native is {self.imgsz}: the largest of {self.images} images is {self.width} x {self.height} "
            f"({Path(self.path).name})"
        )
        if self.shortest < max(self.width, self.height):
            line += f"; smaller ones, down to {self.shortest} px, are enlarged to it"
        if self.unread:
            line += f"; {self.unread} cannot be read and are left out"
        return line


def native_size(data: Mapping[str, Any], *, split: str = "val", fraction: Any = 1.0) -> Native:
    """The sizes of the training and validation images of `data`, which the host has read from its YAML file.

    Raises:
        RequestError: There are no images, or none can be read.
    """
    files = []
    for name in dict.fromkeys(("train", split)):
        try:
            files += hostdata.image_files(data, name, fraction)
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise RequestError(f"imgsz=native: no images are found in {name}: {data.get(name)}; give a size") from error
    known = [(size, path) for size, path in zip(image_sizes(files), files, strict=True) if size is not None]
    if not known:
        raise RequestError(f"imgsz=native: none of {len(files)} images can be read ({files[0]}, ...); give a size")
    (width, height), path = max(known, key=lambda found: max(found[0]))
    return Native(
        width=width, height=height, path=path, shortest=min(max(size) for size, _ in known),
        images=len(known), unread=len(files) - len(known),
    )  # fmt: skip


def native_size_of(path: str, **given: Any) -> Native:
    """`imgsz=native` for the data set of a YAML file; `given` as for `native_size`.

    Raises:
        RequestError: The file cannot be used.
    """
    try:
        data = hostdata.checked_data(path)
    except Exception as error:  # whatever the host has against a file
        raise RequestError(f"data={path} cannot be used: {' '.join(str(error).split())}") from error
    return native_size(data, **given)


def size_for_processes(arguments: Mapping[str, Any]) -> int | None:
    """The size where a training's arguments ask for `imgsz=native` on several devices; None for any other training.

    The host starts a process for each device and calls the first callback in one of them alone, so all have to be
    started with a number.

    Raises:
        RequestError: The data set is not named, or cannot be used.
    """
    device = arguments.get("device")
    several = len(device) > 1 if isinstance(device, (list, tuple)) else "," in str(device).strip("[]() ,")
    if str(arguments.get("imgsz")).lower() != "native" or not several:
        return None
    if not isinstance(arguments.get("data"), (str, Path)):
        raise RequestError("imgsz=native on several devices needs data= beside it; give the data set's YAML, or a size")
    given = {name: arguments[name] for name in ("split", "fraction") if name in arguments}
    found = native_size_of(str(arguments["data"]), **given)
    compat.log(found.line)
    return found.imgsz


def take_native(trainer: Any) -> None:
    """Where `imgsz=native` was asked for, set the size. Called before there are data sets.

    Raises:
        RequestError: The sizes are not known, or there are several processes, of which one alone gets here.
    """
    if str(trainer.args.imgsz).lower() != "native":
        return
    if trainer.args.task == "classify":
        raise RequestError("imgsz=native: classification crops its images to one size; give that")
    found = native_size(hostdata.data_of(trainer), split=str(trainer.args.split), fraction=trainer.args.fraction)
    if int(trainer.world_size) > 1:
        raise RequestError(
            f"imgsz=native: a trainer of its own on {trainer.world_size} devices cannot tell its processes; for this "
            f"data set give imgsz={found.imgsz}"
        )
    compat.set_imgsz(trainer, found.imgsz)
    compat.log(found.line)
