"""What the files of the new data set are called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from yolo_ckpt.data.convert import kinds
from yolo_ckpt.data.convert.sources import Source
from yolo_ckpt.data.convert.tiles import Tile

_FRAME, _TILE = r"_\d{3,}", r"__y\d{5,}_x\d{5,}"
# What may stand behind a file's name in those of its images, by whether it has frames and whether these are tiled.
_BEHIND = {
    (True, False): re.compile(_FRAME + "$"),
    (False, True): re.compile(_TILE + "$"),
    (True, True): re.compile(_FRAME + _TILE + "$"),
}
Parts = tuple[bool, bool]  # a file has several frames; its pictures are tiled


def frame_name(stem: str, index: int) -> str:
    """What one of several pictures of a file is called."""
    return f"{stem}_{index:03d}"


def tile_name(stem: str, place: Tile) -> str:
    """What a tile of a picture is called."""
    return f"{stem}__y{place[1]:05d}_x{place[0]:05d}"


def stems(files: Sequence[Source], names: str, parts: Sequence[Parts]) -> list[str]:
    """A name for each file: its own stem, or a running number. No two files write images of one name.

    DICOM files are numbered unless `names` is `keep`, since their names are often those of patients, or UIDs.

    Args:
        files: The files.
        names: `auto`, `keep` or `number`.
        parts: Of each.
    """
    width = max(6, len(str(len(files))))
    wanted = [
        f"{place:0{width}d}" if is_numbered(file, names) else _clean(file.stem) for place, file in enumerate(files, 1)
    ]
    return _distinct(wanted, parts)


def is_numbered(file: Source, names: str) -> bool:
    """Whether a file's own name goes nowhere into the data set."""
    dicom = file.kind == "dicom" or file.path.suffix.lower() in kinds.DICOM_SUFFIXES
    return names == "number" or (names == "auto" and dicom)


def _clean(stem: str) -> str:
    """A stem that every file system and every label path takes."""
    kept = "".join("_" if c in '<>:"/\\|?*' or not c.isprintable() else c for c in stem).strip(" .")
    while len(kept.encode()) > 180:  # tile and frame numbers follow, and 255 bytes are all that a name may have
        kept = kept[:-1]
    return kept or "image"


def _distinct(wanted: Sequence[str], parts: Sequence[Parts]) -> list[str]:
    taken = Counter(stem.casefold() for stem in wanted)
    used: set[str] = set()
    divided: set[tuple[Parts, str]] = set()  # files whose images have something behind the name
    origins: set[tuple[Parts, str]] = set()  # such files that would have an image of a name that is used
    found = []
    for stem, own in zip(wanted, parts, strict=True):
        name, number = stem, 1
        while (
            name.casefold() in used
            or (number > 1 and name.casefold() in taken)
            or (own, name.casefold()) in origins
            or not divided.isdisjoint(_origins(name.casefold()))
        ):
            number += 1
            name = f"{stem}_{number}"
        used.add(name.casefold())
        origins |= _origins(name.casefold())
        divided.add((own, name.casefold()))
        found.append(name)
    return found


def _origins(name: str) -> set[tuple[Parts, str]]:
    """Files that would have an image called `name` among several."""
    return {(parts, behind.sub("", name)) for parts, behind in _BEHIND.items() if behind.search(name)}
