"""A whole check, from the YAML to the report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from yolo_ckpt.data.check.dataset import DataSet, endings, resolve
from yolo_ckpt.data.check.duplicates import duplicate_findings, same_content
from yolo_ckpt.data.check.findings import SEVERITIES, Finding, Severity, counted, finding
from yolo_ckpt.data.check.imagefindings import FORMATS_BESIDE, image_findings, is_dropped
from yolo_ckpt.data.check.judge import Verdict, judged, to_decode
from yolo_ckpt.data.check.labelfindings import label_findings
from yolo_ckpt.data.check.memory import HostMemory, Loading, Shapes, host_memory, memory_findings
from yolo_ckpt.data.check.scan import Bar, Item, Looked, Step, look_at_all
from yolo_ckpt.data.check.setfindings import file_findings, overlap_findings, split_findings
from yolo_ckpt.data.check.statistics import (
    Pictures,
    Rect,
    Sizes,
    native_imgsz,
    object_sides,
    pictures,
    rect_at,
    sizes_at,
)
from yolo_ckpt.data.check.task import task_of
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.budget import objects_per_image


@contextlib.contextmanager
def unseen(_: str, __: int) -> Iterator[Step]:
    """A progress bar for callers whom nobody watches."""
    yield lambda _: None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for.

    Attributes:
        data: The YAML, or the folder around it.
        imgsz: The longer side to train at; 0: the largest side of the images.
        batch: Images in a step.
        workers: As the host's argument.
        cache: `ram`, `disk` or nothing.
        task: Empty: guessed.
        full: Decode every image.
    """

    data: str
    imgsz: int = 0
    batch: int = 16
    workers: int = 8
    cache: str = ""
    task: str = ""
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found.

    Attributes:
        data: Path of the YAML.
        root: Folder that its files are in.
        task: Of the labels.
        task_guessed: It was not given.
        classes: How many there are.
        imgsz: The longer side that the numbers are for.
        batch: Images in a step.
        splits: Numbers by split.
        sizes: Objects in pixels, at 640 and at `imgsz`.
        rect: What `rect=True` would save on `train`.
        objects: Of the fullest image of a training batch, for `yolo-ckpt plan objects=`.
        memory: Of the host.
        counts: Findings by severity.
        findings: All of them, the worst first.
        undecoded: Images in doubt that were not decoded.
        seconds: That the check took.
    """

    data: str
    root: str
    task: str
    task_guessed: bool
    classes: int
    imgsz: int
    batch: int
    splits: dict[str, Pictures] = field(default_factory=dict)
    sizes: tuple[Sizes, ...] = ()
    rect: Rect | None = None
    objects: int = 1
    memory: HostMemory | None = None
    counts: dict[Severity, int]
    findings: tuple[Finding, ...]
    undecoded: int = 0
    seconds: float

    @property
    def fine(self) -> bool:
        """Training would neither fail nor lose data."""
        return not (self.counts["fails"] or self.counts["loses"])


def check(options: Options, bar: Bar = unseen) -> Report:
    """Look at everything; files are read only.

    Raises:
        SettingsError: The options are wrong, or there is no such data set.
    """
    begin = time.perf_counter()
    data = resolve(options.data)
    items = items_of(data)
    task, guessed = task_of(data, items, options.task)
    if task == "pose" and not all(data.keypoints):
        data = replace(
            data, listings={}, findings=(*data.findings, finding("keypoints-undefined", data.yaml, "task=pose"))
        )
        items = []
    rules = data.rules(task)
    looked = look_at_all(items, rules, bar, "looking at images and labels")
    chosen, doubtful = to_decode(looked, data.channels, everything=options.full)
    with bar("decoding what is in doubt", len(chosen)) as step:
        verdicts = judged(chosen, data.channels, step)
    return _Summary(data, task, looked, verdicts, options).report(
        guessed=guessed, undecoded=max(doubtful - len(verdicts), 0), begin=begin
    )


def items_of(data: DataSet) -> list[Item]:
    """Every image of every split, with the place of its labels."""
    from ultralytics.data.utils import img2label_paths

    return [
        Item(path=path, label_path=label, split=split)
        for split, listing in data.listings.items()
        for path, label in zip(listing.images, img2label_paths(list(listing.images)), strict=True)
    ]


class _Summary:
    """Findings and numbers of what was looked at."""

    def __init__(
        self, data: DataSet, task: str, looked: list[Looked], verdicts: dict[str, Verdict], options: Options
    ) -> None:
        self._data, self._task, self._looked, self._verdicts, self._options = data, task, looked, verdicts, options
        self._formats = endings() | FORMATS_BESIDE
        self._dropped = {one.path for one in looked if is_dropped(one.header, verdicts.get(one.path), self._formats)}
        self._used = [one for one in looked if one.path not in self._dropped and not one.labels.code]
        self._unlabelled = set(data.listings) - {one.split for one in looked if one.labels.found}
        self._imgsz = options.imgsz or native_imgsz(self._used)

    def report(self, *, guessed: bool, undecoded: int, begin: float) -> Report:
        """Everything in one record."""
        options, data = self._options, self._data
        distinct = list({one.path: one for one in self._used}.values())
        sides = object_sides(distinct)
        train, val = (self._of(split, self._used) for split in ("train", "val"))
        loading = Loading(
            imgsz=self._imgsz, batch=options.batch, workers=options.workers, cache=options.cache, channels=data.channels
        )
        memory = host_memory(Shapes.of(train), Shapes.of(val), loading)
        findings = [*self._findings(), *memory_findings(memory, loading, data.yaml, data.root)]
        findings.sort(key=lambda one: SEVERITIES.index(one.kind))
        return Report(
            data=data.yaml, root=data.root, task=self._task, task_guessed=guessed, classes=len(data.names),
            imgsz=self._imgsz, batch=options.batch,
            splits={s: pictures(self._of(s, self._looked), self._of(s, self._used)) for s in data.listings},
            sizes=tuple(sizes_at(sides, size) for size in dict.fromkeys((compat.DEFAULT_IMGSZ, self._imgsz))),
            rect=rect_at(train, self._imgsz, options.batch),
            objects=objects_per_image([{"cls": one.labels.boxes} for one in train], mosaic=True),
            memory=memory, counts=counted(findings), findings=tuple(findings), undecoded=undecoded,
            seconds=round(time.perf_counter() - begin, 2),
        )  # fmt: skip

    @staticmethod
    def _of(split: str, looked: Sequence[Looked]) -> list[Looked]:
        return [one for one in looked if one.split == split]

    def _findings(self) -> Iterator[Finding]:
        data = self._data
        yield from data.findings
        for listing in data.listings.values():
            yield from listing.findings
        yield from split_findings(data, self._looked, self._dropped | {o.path for o in self._looked if o.labels.code})
        yield from overlap_findings(data)
        distinct = list({one.path: one for one in self._looked}.values())
        yield from self._of_files(distinct)
        yield from file_findings(data, distinct)
        yield from duplicate_findings(same_content(distinct))

    def _of_files(self, distinct: Sequence[Looked]) -> Iterator[Finding]:
        first = [list(self._findings_of(one, deep_loses=False)) for one in distinct]
        losing = any(f.code == "image-few-levels" for found in first for f in found)
        for one, found in zip(distinct, first, strict=True):
            yield from self._findings_of(one, deep_loses=True) if losing else found

    def _findings_of(self, one: Looked, *, deep_loses: bool) -> Iterator[Finding]:
        verdict = self._verdicts.get(one.path)
        yield from image_findings(
            one.path, one.header, verdict, channels=self._data.channels, formats=self._formats, deep_loses=deep_loses
        )
        if one.path not in self._dropped:
            labels = label_findings(one, self._task, self._imgsz)
            yield from (f for f in labels if f.code != "label-missing" or one.split not in self._unlabelled)
