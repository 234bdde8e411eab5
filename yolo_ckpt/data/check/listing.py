"""The files of a split, as the host lists them, and what its listing passes over without a word.

The host asks `glob` for `**/*.*` below a folder, or reads a list of paths, and keeps the names that end as an image
does (8.4.190, `BaseDataset.get_img_files`). Here the folders are walked by hand: a link that leads back into its own
folder is found instead of followed forty times, and a folder that may not be read is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.host import PICTURES

_DICOM_AT, _DICOM = 128, b"DICM"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What belongs to a split.

    Attributes:
        images: Paths, in the host's order.
        folders: Where it was looked for them.
        findings: What is wrong with folders, links, lists and names.
        arrays: Paths of the .npy files beside images.
        truncated: The walk was stopped at the limit.
    """

    images: tuple[str, ...]
    folders: tuple[str, ...]
    findings: tuple[Finding, ...]
    arrays: frozenset[str]
    truncated: bool = False


@dataclass
class _Walk:
    """The state of a listing."""

    endings: frozenset[str]
    limit: int | None
    images: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    arrays: set[str] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return self.limit is not None and len(self.images) >= self.limit

    def take(self, path: str) -> None:
        """Sort a file in by its name."""
        ending = path.rpartition(".")[-1].lower()
        if ending in self.endings:
            self.images.append(path)
        elif ending == "npy":
            self.arrays.add(path)
        else:
            kind = _picture(path, ending)
            if kind:
                self.findings.append(finding("image-ignored", path, f"{kind}, which the host does not list"))


def list_images(places: Iterable[str], endings: Iterable[str], limit: int | None = None) -> Listing:
    """The images below the folders and in the lists `places`, with names that have one of the `endings`; about `limit`
    at most."""
    walk = _Walk(frozenset(endings), limit)
    for place in places:
        if Path(place).is_dir():
            walk.folders.append(place)
            _walk_folder(walk, place)
        elif Path(place).is_file():
            _read_list(walk, place)
        else:
            walk.findings.append(finding("split-missing", place, "there is no such folder or list"))
    return Listing(
        images=tuple(sorted(walk.images)), folders=tuple(walk.folders), findings=tuple(walk.findings),
        arrays=frozenset(walk.arrays), truncated=walk.full,
    )  # fmt: skip


def _walk_folder(walk: _Walk, root: str) -> None:
    """Hidden names are not listed; links to folders are followed; a folder with a dot in its name is listed itself."""
    waiting: list[tuple[str, tuple[tuple[int, int], ...]]] = [(root, ())]
    while waiting:
        folder, above = waiting.pop()
        try:
            here = _identity(folder)
            if here in above:
                walk.findings.append(finding("folder-loop", folder, f"leads back to {os.path.realpath(folder)}"))
                continue
            for entry in os.scandir(folder):
                if walk.full:
                    return
                _take(walk, entry)
                if not entry.name.startswith(".") and _is_folder(entry):
                    waiting.append((entry.path, (*above, here)))
        except OSError as error:
            walk.findings.append(finding("folder-unreadable", folder, _reason(error)))


def _take(walk: _Walk, entry: os.DirEntry[str]) -> None:
    if entry.name.startswith("."):
        return
    if "." in entry.name:
        walk.take(entry.path)
    elif _is_file(entry) and _picture(entry.path, ""):
        walk.findings.append(finding("image-ignored", entry.path, "a DICOM file without an ending"))


def _identity(folder: str) -> tuple[int, int]:
    status = Path(folder).stat()
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _picture(path: str, ending: str) -> str:
    """What kind of picture a name that the host does not list stands for; empty for anything else."""
    if path.lower().endswith(".nii.gz"):
        return "a NIfTI volume"
    if ending in PICTURES:
        return f"a .{ending} file"
    if ending and not ending.isdecimal():
        return ""
    try:
        with Path(path).open("rb") as file:
            file.seek(_DICOM_AT)
            return "a DICOM file" if file.read(len(_DICOM)) == _DICOM else ""
    except OSError:
        return ""


def _read_list(walk: _Walk, place: str) -> None:
    """One path a line; those that begin with `./` are relative to the list, others to the working folder."""
    try:
        lines = Path(place).read_text(encoding="utf-8-sig").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        walk.findings.append(finding("split-missing", place, f"the list cannot be read ({error})"))
        return
    for number, line in _numbered(lines):
        if walk.full:
            break
        path = str(Path(place).parent / line[2:]) if line.startswith("./") else line
        if path.rpartition(".")[-1].lower() in walk.endings:
            walk.images.append(path.replace("/", os.sep))
        else:
            what = "has spaces around it" if line != line.strip() else "does not end as an image does"
            walk.findings.append(finding("list-entry", place, f"line {number}: {line.strip()[:80]} {what}"))


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())
