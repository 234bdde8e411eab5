"""What was done, for the shell and for convert_report.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolo_ckpt.data.convert.job import Outcome
from yolo_ckpt.data.convert.naming import is_numbered
from yolo_ckpt.data.convert.request import Request
from yolo_ckpt.data.convert.sources import Source


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """One source file and what became of it."""

    source: Source
    outcome: Outcome

    def record(self, *, hidden: bool) -> dict[str, Any]:
        """For JSON; without the file's name where that is `hidden`."""
        outcome = self.outcome
        found: dict[str, Any] = {
            "source": f"sha256:{outcome.sha256}" if hidden else str(self.source.relative),
            "done": outcome.done,
        }
        for name in ("why", "images", "objects", "notes"):
            if getattr(outcome, name):
                found[name] = getattr(outcome, name)
        if outcome.dropped:
            found["dropped"] = len(outcome.dropped)  # their names are in the sum of all files
        return found | ({"windows": sorted(outcome.windows)} if outcome.windows else {})


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """The whole.

    Attributes:
        request: What was asked.
        files: Every image file of the source.
        labels: Format of the labels, empty for none.
        names: Class names in the order of their numbers.
        images: Images written, by split.
        lines: What else is to be said, a sentence each.
        unused: Labels without an image.
    """

    request: Request
    files: Sequence[FileReport]
    labels: str
    names: Sequence[str]
    images: Counter[str]
    lines: Sequence[str] = ()
    unused: Sequence[str] = field(default_factory=tuple)

    @property
    def dst(self) -> Path:
        """Where the data set is."""
        return self.request.dst

    def listed(self, done: str) -> list[tuple[str, str]]:
        """Files of one outcome, and why."""
        return [(str(f.source.relative), f.outcome.why) for f in self.files if f.outcome.done == done]

    def total(self, what: str) -> Counter[str]:
        """`objects`, `notes` or `dropped` of all files together."""
        found: Counter[str] = Counter()
        for file in self.files:
            found.update(getattr(file.outcome, what))
        return Counter({n: found[n] for n in self.names if n in found}) if what == "objects" else found

    @property
    def windows(self) -> Counter[str]:
        """How many files got their grey levels in which way; without the numbers, which differ by file."""
        return Counter(text.split(":", 1)[0].split(", ")[0] for file in self.files for text in file.outcome.windows)

    def record(self, *, private: bool) -> dict[str, Any]:
        """For JSON. `private` is for the file beside the images: no name of a source file that might be a patient's."""
        hidden = [private and is_numbered(file.source, self.request.names) for file in self.files]
        return {
            "done": dict(Counter(file.outcome.done for file in self.files)),
            "task": self.request.task,
            "labels": self.labels,
            "names": list(self.names),
            "images": dict(self.images),
            "objects": dict(self.total("objects")),
            "windows": dict(self.windows),
            "notes": dict(self.total("notes")),
            "dropped": dict(self.total("dropped")),
            "lines": list(self.lines),
            "labels_without_image": len(self.unused) if any(hidden) else list(self.unused),
            "files": [file.record(hidden=h) for file, h in zip(self.files, hidden, strict=True)],
        }
