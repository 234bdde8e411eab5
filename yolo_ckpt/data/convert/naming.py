"""What the files of the new data set are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from yolo_ckpt.data.convert import kinds
from yolo_ckpt.data.convert.sources import Source


def stems(files: Sequence[Source], names: str) -> list[str]:
    """A name for each file, each once: its own stem, or a running number.

    DICOM files are numbered unless `names` is `keep`, since their names are often those of patients, or UIDs.
    """
    width = max(6, len(str(len(files))))
    wanted = [
        f"{place:0{width}d}" if is_numbered(file, names) else _clean(file.stem) for place, file in enumerate(files, 1)
    ]
    return _distinct(wanted)


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


def _distinct(wanted: Sequence[str]) -> list[str]:
    taken = Counter(stem.casefold() for stem in wanted)
    used: set[str] = set()
    found = []
    for stem in wanted:
        name, number = stem, 1
        while name.casefold() in used or (number > 1 and name.casefold() in taken):
            number += 1
            name = f"{stem}_{number}"
        used.add(name.casefold())
        found.append(name)
    return found
