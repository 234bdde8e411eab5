"""Images with the same content: cheap ones first. Files of one size are compared by their ends, those that are still
alike by all they hold; two names of one file need no reading."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.check.scan import Looked

_END_BYTES = 4096
_BLOCK_BYTES = 1 << 20

Group = list[Looked]


def same_content(looked: Iterable[Looked]) -> list[Group]:
    """Groups of two images and more."""
    readable = [one for one in looked if one.header.file_bytes]
    by_file: dict[Hashable, Group] = defaultdict(list)
    for one in readable:
        by_file[one.header.identity if any(one.header.identity) else one.path].append(one)
    groups = [list(by_file.values())]  # groups of files, each with its names
    for key in (lambda group: group[0].header.file_bytes, _ends, _whole):
        groups = [part for files in groups for part in _split(files, key) if len(part) > 1]
    several = {id(names) for files in groups for names in files}
    linked = [names for names in by_file.values() if len(names) > 1 and id(names) not in several]
    return [[one for names in files for one in names] for files in groups] + linked


def _split(files: Sequence[Group], key: Callable[[Group], Hashable]) -> list[list[Group]]:
    parts: dict[Hashable, list[Group]] = defaultdict(list)
    for names in files:
        parts[key(names)].append(names)
    return list(parts.values())


def _ends(names: Group) -> Hashable:
    path = names[0].path
    try:
        with Path(path).open("rb") as file:
            head = file.read(_END_BYTES)
            file.seek(max(names[0].header.file_bytes - _END_BYTES, 0), os.SEEK_SET)
            return hashlib.blake2b(head + file.read(_END_BYTES)).digest()
    except OSError:
        return path  # alike with nothing


def _whole(names: Group) -> Hashable:
    path = names[0].path
    if names[0].header.file_bytes <= 2 * _END_BYTES:
        return True  # its ends were all of it
    try:
        digest = hashlib.blake2b()
        with Path(path).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.digest()
    except OSError:
        return path


def duplicate_findings(groups: Iterable[Group]) -> list[Finding]:
    """One for each group, at its first file."""
    found = []
    for group in groups:
        first, second = group[0], next((one for one in group if one.split != group[0].split), group[1])
        more = f" and {len(group) - 2:,} more" if len(group) > 2 else ""
        if first.split == second.split:
            found.append(finding("image-duplicate", first.path, f"the same as {second.path}{more}"))
        else:
            reason = f"in {first.split}, the same as {second.path} in {second.split}{more}"
            found.append(finding("image-leak", first.path, reason))
    return found
