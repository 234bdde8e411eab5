"""The files under `src=`: which are images, by what they hold, and which split their folder names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from yolo_ckpt.data.convert import kinds
from yolo_ckpt.data.convert.problems import said
from yolo_ckpt.data.host import PICTURES

_NO_IMAGE = frozenset(
    (".csv", ".htm", ".html", ".ini", ".json", ".log", ".md", ".names", ".npy", ".npz", ".pdf", ".pt", ".py", ".txt",
     ".xml", ".yaml", ".yml", ".zip")
)  # fmt: skip
REPORT = "convert_report.json"  # beside the data.yaml of a conversion
_OTHER_PICTURES = PICTURES - {suffix[1:] for suffix in kinds.IMAGE_SUFFIXES | kinds.DICOM_SUFFIXES}
_SPLITS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
    "testing": "test",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file.

    Attributes:
        path: Where it is.
        relative: The same, from `src`.
        kind: `image`, `tiff` or `dicom`; `broken` for what is called an image and is none; `other` for pictures of
            kinds that are not read; empty for any other file.
        why: What is wrong with a broken or other one.
    """

    path: Path
    relative: Path
    kind: str
    why: str = ""

    @property
    def stem(self) -> str:
        """What its label is called. Names such as `1.2.840.10008` have dots and no suffix."""
        known = self.path.suffix.lower() in kinds.IMAGE_SUFFIXES | kinds.DICOM_SUFFIXES | _NO_IMAGE
        return self.path.stem if known else self.path.name


def sources(src: Path) -> list[Source]:
    """Every file under a folder, or beside a file, in the order of their names; each folder is entered once, so that
    links in a circle end. A folder that cannot be listed is a broken file; one below that a conversion has written is
    passed over."""
    if src.is_file():
        return [_source(path, src.parent) for path in sorted(p for p in src.parent.iterdir() if p.is_file())]
    closed: list[OSError] = []
    found = [_source(path, src) for path in sorted(_files(src, closed.append))]
    return found + [
        Source(
            path=Path(error.filename), relative=Path(error.filename).relative_to(src), kind="broken",
            why=f"the folder cannot be listed: {said(error)}",
        )
        for error in closed
    ]  # fmt: skip


def _files(src: Path, closed: Callable[[OSError], None]) -> Iterator[Path]:
    entered: set[tuple[int, int]] = set()
    for folder, inside, names in os.walk(src, followlinks=True, onerror=closed):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in entered:
            inside.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        if REPORT in names and Path(folder) != src:
            inside.clear()
            continue
        inside[:] = [name for name in inside if not name.startswith(".")]
        yield from (Path(folder) / name for name in names if not name.startswith("."))


def _source(path: Path, root: Path) -> Source:
    kind, why = _kind(path)
    return Source(path=path, relative=path.relative_to(root), kind=kind, why=why)


def _kind(path: Path) -> tuple[str, str]:
    suffix = ".nii" if path.name.lower().endswith(".nii.gz") else path.suffix.lower()
    if suffix in _NO_IMAGE:
        return "", ""
    if suffix[1:] in _OTHER_PICTURES:
        return "other", f"{suffix} is not read here; write it as TIFF, PNG or DICOM first"
    called = "dicom" if suffix in kinds.DICOM_SUFFIXES else "image" if suffix in kinds.IMAGE_SUFFIXES else ""
    try:
        head = kinds.first_bytes(path)
    except OSError as error:
        return ("broken", f"it cannot be opened: {said(error)}") if called else ("", "")
    if called and not head:
        return "broken", "it is empty (0 bytes)"
    found = kinds.kind_of(head)
    if called == "dicom" or found == "dicom":
        return "dicom", ""
    if called and not found:
        return "broken", "it is no image: its first bytes are those of no known format"
    return (found, "") if called else ("", "")


def split_named(relative: PurePath) -> str:
    """The split that a folder on the way names (`train`, `val2017`, ...), empty for none."""
    for part in relative.parts[:-1]:
        found = _SPLITS.get(part.lower().rstrip("0123456789"))
        if found:
            return found
    return ""


def split_in_name(name: str) -> str:
    """The split that a file's name speaks of, as `instances_train2017` does, empty for none."""
    words = "".join(c if c.isalpha() else " " for c in name.lower()).split()
    found = {_SPLITS[word] for word in words if word in _SPLITS}
    return found.pop() if len(found) == 1 else ""
