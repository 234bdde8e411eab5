"""A short look at the data before training: what the host will drop, damage or not see, in a few lines of log.

Headers and labels of a sample, spread over the whole set, and no longer than a moment: what takes its time is
`yolo-ckpt check`. It stops no run, draws no random number, and touches neither images nor the host's caches.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yolo_ckpt.data.check.dataset import TASKS, DataSet, endings, of_description
from yolo_ckpt.data.check.findings import CODES, Finding, Severity
from yolo_ckpt.data.check.imagefindings import FORMATS_BESIDE, image_findings, is_dropped
from yolo_ckpt.data.check.judge import is_deep, judge
from yolo_ckpt.data.check.labelfindings import label_findings
from yolo_ckpt.data.check.memory import Loading, Shapes, host_memory, memory_findings
from yolo_ckpt.data.check.run import items_of
from yolo_ckpt.data.check.scan import Item, Looked, look, silent
from yolo_ckpt.data.check.statistics import CELL_PX, native_imgsz, object_sides, sizes_at
from yolo_ckpt.integration import compat

MOST_LISTED = 50_000  # files of a split
MOST_LOOKED_AT = 1000
SECONDS = 1.0  # for looking at them
_DECODED, _DECODED_PIXELS = 3, 30_000_000  # 16-bit images of which the levels are counted, each of this size at most
_KINDS = 3  # of findings in a line
_MANY = 0.05  # share of objects below a cell that is worth a line
_SAID: dict[Severity, str] = {"fails": "stop training", "loses": "be left out or damaged"}


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What was looked at.

    Attributes:
        data: The data set.
        looked: The sample.
        used: Of it, what the host trains on.
        counts: Images by split.
        more: There are more than were listed.
    """

    data: DataSet
    looked: list[Looked]
    used: list[Looked]
    counts: dict[str, int]
    more: bool


class Preflight:
    """What a run looks at once: `look` before the host reads the data, `tell` when size and batch are known."""

    def __init__(self) -> None:
        self._looked = self._told = False
        self._seen: _Seen | None = None

    def look(self, trainer: Any) -> None:
        """Look at a sample of the images that `trainer` is going to read, and log what is wrong with them."""
        if self._looked or trainer.args.task not in TASKS or not _in_files(trainer.data):
            return
        self._looked = True
        try:
            self._seen = _look(trainer)
            _log_files(self._seen, trainer.args.task)
        except Exception as error:  # files may be anything; whatever is wrong, training is what was asked for
            _log_failure(error)

    def tell(self, trainer: Any, *, planned: bool) -> None:
        """Log what size and batch make of the data; `planned` where validation takes no more images than training."""
        seen, told = self._seen, self._told
        self._told = True
        if seen is None or told:
            return
        try:
            _log_sizes(seen, int(trainer.args.imgsz))
            _log_memory(seen, trainer, planned=planned)
        except Exception as error:  # as above
            _log_failure(error)


def _in_files(data: Any) -> bool:
    """True for splits that are folders and lists; some trainers keep descriptions of other sources there."""
    places = [data.get(split) for split in ("train", "val")] if isinstance(data, dict) else [None]
    flat = [place for given in places for place in (given if isinstance(given, list) else [given])]
    return all(isinstance(place, (str, Path)) for place in flat)


def _log_failure(error: Exception) -> None:
    compat.log(f"the data could not be looked at ({type(error).__name__}: {error}); going on", warning=True)


def _look(trainer: Any) -> _Seen:
    """Headers and labels of some of the images."""
    described = {key: value for key, value in trainer.data.items() if key != "test"}  # not read in training
    data = of_description(described, str(trainer.args.data), MOST_LISTED)
    rules = data.rules(trainer.args.task, any_class=bool(trainer.args.single_cls))
    items = items_of(data)
    looked, until = [], time.perf_counter() + SECONDS
    with silent():
        for item in spread(items, MOST_LOOKED_AT):
            looked.append(look(item, rules))
            if time.perf_counter() > until:
                break
    formats = endings() | FORMATS_BESIDE
    used = [one for one in looked if not is_dropped(one.header, None, formats) and not one.labels.code]
    counts = {split: len(listing.images) for split, listing in data.listings.items()}
    more = any(listing.truncated for listing in data.listings.values())
    return _Seen(data=data, looked=looked, used=used, counts=counts, more=more)


def spread(items: Sequence[Item], most: int) -> Iterator[Item]:
    """At most so many of them in an order of which every beginning is spread over the whole: steps of the golden
    section, so that a walk which is stopped has seen something of everything."""
    count = len(items)
    step = max(round(count * (math.sqrt(5) - 1) / 2), 1)
    while math.gcd(step, max(count, 1)) != 1:
        step += 1
    return (items[i * step % count] for i in range(min(most, count)))


def _log_files(seen: _Seen, task: str) -> None:
    found = [*_findings(seen, task), *(f for each in seen.data.listings.values() for f in each.findings)]
    total = sum(seen.counts.values())
    few = len(seen.looked) < total
    several = f"{len(seen.looked):,} of {total:,}{' and more' if seen.more else ''}" if few else f"{total:,}"
    for kind, what in _SAID.items():
        of_kind = [f for f in found if f.kind == kind]
        if of_kind:
            compat.log(
                f"of {several} images looked at, {len(of_kind):,} files will {what}: {_summary(of_kind)}; "
                f"`yolo-ckpt check data={seen.data.yaml}` tells all",
                warning=True,
            )


def _findings(seen: _Seen, task: str) -> Iterator[Finding]:
    """About images and their labels, without those that depend on the size of training."""
    formats = endings() | FORMATS_BESIDE
    deep = [
        one for one in seen.used if is_deep(one.header) and one.header.whole and one.header.pixels <= _DECODED_PIXELS
    ]
    verdicts = {one.path: judge(one.path, one.header, seen.data.channels) for one in deep[:_DECODED]}
    judged = [f for one in deep[:_DECODED] for f in _of_image(one, seen, formats, verdicts)]
    losing = any(f.code == "image-few-levels" for f in judged)
    for one in sorted(seen.looked, key=lambda one: one.path not in verdicts):  # those with their levels first
        yield from _of_image(one, seen, formats, verdicts, deep_loses=losing)
        if not is_dropped(one.header, None, formats):
            yield from (f for f in label_findings(one, task, 1 << 16) if not f.code.startswith("object-"))


def _of_image(one: Looked, seen: _Seen, formats: frozenset[str], verdicts: Any, **how: bool) -> Iterable[Finding]:
    return image_findings(
        one.path, one.header, verdicts.get(one.path), channels=seen.data.channels, formats=formats, **how
    )


def _summary(findings: Iterable[Finding]) -> str:
    """How many there are of each kind, with the first of them."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.code].append(one)
    largest = sorted(groups.items(), key=lambda item: -len(item[1]))
    said = [
        f"{len(group):,} {CODES[code].title} ({Path(group[0].file).name}: {group[0].reason})"
        for code, group in largest[:_KINDS]
    ]
    others = sum(len(group) for _, group in largest[_KINDS:])
    return "; ".join([*said, *([f"{others:,} of other kinds"] if others else [])])


def _log_sizes(seen: _Seen, imgsz: int) -> None:
    """Objects that are small for the network, where a larger size would help."""
    sides, native = object_sides(seen.used), native_imgsz(seen.used)
    now, own = sizes_at(sides, imgsz), sizes_at(sides, max(native, imgsz))
    if not now.objects or now.below_cell < _MANY * now.objects or own.below_cell == now.below_cell:
        return
    compat.log(
        f"{now.below_cell / now.objects:.0%} of the objects are below {CELL_PX} px, a cell of the finest feature map, "
        f"at imgsz={imgsz}; {own.below_cell / own.objects:.0%} at {own.imgsz}, the images' own size"
    )


def _log_memory(seen: _Seen, trainer: Any, *, planned: bool) -> None:
    batch = compat.batch_per_device(trainer)
    how = _loading(trainer, seen.data, batch)
    how = replace(how, val_batch=batch) if planned else how
    train, val = (
        Shapes.of([one for one in seen.used if one.split == split], seen.counts.get(split, 0))
        for split in ("train", "val")
    )
    for one in memory_findings(host_memory(train, val, how), how, seen.data.yaml, seen.data.root):
        compat.log(f"{one.reason}; {one.advice}", warning=True)


def _loading(trainer: Any, data: DataSet, batch: int) -> Loading:
    cache = trainer.args.cache
    return Loading(
        imgsz=int(trainer.args.imgsz), batch=batch, workers=int(trainer.args.workers), channels=data.channels,
        cache="ram" if cache is True else str(cache).lower() if cache else "", rect=bool(trainer.args.rect),
        validates=bool(trainer.args.val),
    )  # fmt: skip
