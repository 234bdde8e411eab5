"""What a check of a data set found, for people: numbers first, then findings, the worst first."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table

from yolo_ckpt.units import format_bytes

_FEW = 3  # files shown of each kind of finding
_HEADINGS = {"fails": "training would fail", "loses": "training would lose data", "note": "to know"}


class _Finding(Protocol):
    @property
    def code(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def advice(self) -> str: ...


class _Pictures(Protocol):
    @property
    def listed(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def background(self) -> int: ...
    @property
    def objects(self) -> int: ...
    @property
    def mean_objects(self) -> float: ...
    @property
    def most_objects(self) -> int: ...
    @property
    def kinds(self) -> Mapping[str, int]: ...
    @property
    def least_side(self) -> int: ...
    @property
    def largest_side(self) -> int: ...
    @property
    def sizes(self) -> int: ...


class _Sizes(Protocol):
    @property
    def imgsz(self) -> int: ...
    @property
    def objects(self) -> int: ...
    @property
    def median_px(self) -> float: ...
    @property
    def tenth_px(self) -> float: ...
    @property
    def below_cell(self) -> int: ...
    @property
    def thinner_than_cell(self) -> int: ...


class _Rect(Protocol):
    @property
    def square_pixels(self) -> int: ...
    @property
    def rect_pixels(self) -> int: ...
    @property
    def image_pixels(self) -> int: ...
    @property
    def saved_share(self) -> float: ...
    @property
    def largest(self) -> tuple[int, int]: ...


class _Memory(Protocol):
    @property
    def workers(self) -> int: ...
    @property
    def worker_bytes(self) -> int: ...
    @property
    def val_workers(self) -> int: ...
    @property
    def val_worker_bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def cache_bytes(self) -> int: ...
    @property
    def cached(self) -> bool: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def free_bytes(self) -> int: ...


class _Report(Protocol):
    @property
    def data(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def task_guessed(self) -> bool: ...
    @property
    def classes(self) -> int: ...
    @property
    def imgsz(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def splits(self) -> Mapping[str, _Pictures]: ...
    @property
    def sizes(self) -> Sequence[_Sizes]: ...
    @property
    def rect(self) -> _Rect | None: ...
    @property
    def objects(self) -> int: ...
    @property
    def memory(self) -> _Memory | None: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def findings(self) -> Sequence[_Finding]: ...
    @property
    def undecoded(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def print_check(report: _Report, titles: Mapping[str, str], cell_px: int, *, everything: bool = False) -> None:
    """The report; `titles` say what each kind of finding is. The first few files of each, or all with `everything`."""
    console = Console()
    guessed = " (guessed from its labels)" if report.task_guessed else ""
    _line(console, f"{report.data}: task={report.task}{guessed}, {_many(report.classes, 'class', 'classes')}")
    if report.splits:
        console.print(_splits(report.splits))
        if report.sizes[0].objects:
            console.print(_sizes(report.sizes, cell_px))
        for text in _advice(report):
            _line(console, text)
    for kind, heading in _HEADINGS.items():
        of_kind = [f for f in report.findings if f.kind == kind]
        if of_kind:
            _line(console, f"\n{heading} ({len(of_kind):,}):")
            _groups(console, of_kind, titles, report.root, None if everything else _FEW)
    _line(console, "\n" + _verdict(report))


def _line(console: Console, text: str) -> None:
    shown = "\n".join(part if part.isprintable() else ascii(part)[1:-1] for part in text.split("\n"))
    console.print(shown, markup=False, highlight=False, soft_wrap=True)


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _splits(splits: Mapping[str, _Pictures]) -> Table:
    table = Table("", *splits, box=None, pad_edge=False)
    rows: dict[str, Callable[[_Pictures], str]] = {
        "images": lambda p: f"{p.listed:,}" if p.listed == p.used else f"{p.listed:,}, {p.used:,} of them usable",
        "background": lambda p: f"{p.background:,}",
        "objects": lambda p: f"{p.objects:,}",
        "in an image": lambda p: f"{p.mean_objects:.1f}, at most {p.most_objects:,}",
        "longer side": lambda p: f"{_span(p.least_side, p.largest_side)} px, {_many(p.sizes, 'size')}",
        "files": lambda p: "\n".join(f"{count:,} x {kind}" for kind, count in list(p.kinds.items())[:4]),
    }
    for name, text in rows.items():
        table.add_row(name, *(text(p) for p in splits.values()))
    return table


def _span(least: int, most: int) -> str:
    return f"{most}" if least == most else f"{least} to {most}"


def _sizes(sizes: Sequence[_Sizes], cell_px: int) -> Table:
    table = Table("\nobjects", *(f"\nat imgsz={each.imgsz}" for each in sizes), box=None, pad_edge=False)
    table.add_row("half are below", *(f"{each.median_px:.1f} px" for each in sizes))
    table.add_row("a tenth below", *(f"{each.tenth_px:.1f} px" for each in sizes))
    for name, field in ((f"below {cell_px} px", "below_cell"), (f"a side below {cell_px} px", "thinner_than_cell")):
        counts = [(getattr(each, field), each.objects) for each in sizes]
        table.add_row(name, *(f"{count:,} ({count / total:.1%})" for count, total in counts))
    return table


def _advice(report: _Report) -> list[str]:
    lines = [""]
    if report.rect is not None:
        height, width = report.rect.largest
        square, rect = (1 - report.rect.image_pixels / p for p in (report.rect.square_pixels, report.rect.rect_pixels))
        lines.append(
            f"rect=True would save {report.rect.saved_share:.0%} of the pixels of train at imgsz={report.imgsz} "
            f"batch={report.batch} (padding {max(square, 0):.0%} in squares, {max(rect, 0):.0%} then); the largest "
            f"batches would be {width} x {height}, without mosaic and shuffling"
        )
    lines.append(f"for `yolo-ckpt plan`: objects={report.objects} (the fullest image of a batch, with mosaic)")
    if report.memory is not None:
        lines.append(_memory(report.memory, report.batch))
    if report.undecoded:
        lines.append(f"{_many(report.undecoded, 'image')} in doubt not decoded; full=True decodes all")
    return lines


def _memory(memory: _Memory, batch: int) -> str:
    loads = f"{_many(memory.workers, 'worker')} of {format_bytes(memory.worker_bytes)}"
    parts = [loads if memory.workers else "no worker process"]
    if memory.val_workers:
        parts.append(f"{memory.val_workers:,} for validation of {format_bytes(memory.val_worker_bytes)}")
    parts.append(f"{format_bytes(memory.shared_bytes)} of batches that wait")
    parts.append(f"the cache {'' if memory.cached else 'would be '}{format_bytes(memory.cache_bytes)}")
    return (
        f"host memory of loading at batch={batch}: up to {format_bytes(memory.total_bytes)} of "
        f"{format_bytes(memory.free_bytes)} that are free ({', '.join(parts)})"
    )


def _groups(
    console: Console, findings: Sequence[_Finding], titles: Mapping[str, str], root: str, few: int | None
) -> None:
    groups: dict[tuple[str, str], list[_Finding]] = defaultdict(list)
    for one in findings:
        groups[one.code, one.advice].append(one)
    for (code, advice), group in groups.items():
        _line(console, f"  {len(group):,} {code}: {titles[code]}; {advice}")
        for one in group[:few]:
            _line(
                console,
                f"      {_short(one.file, root)}: {one.reason.replace(root + os.sep, '') if root else one.reason}",
            )
        if few is not None and len(group) > few:
            _line(console, f"      and {len(group) - few:,} more (findings=all)")


def _short(file: str, root: str) -> str:
    """The path below the data set's folder."""
    return str(Path(file).relative_to(root)) if root and Path(file).is_relative_to(root) else file


def _verdict(report: _Report) -> str:
    fails, loses = (report.counts[kind] for kind in ("fails", "loses"))
    took = f"({report.seconds:.1f} s)"
    if fails:
        return f"training would fail: {_many(fails, 'finding')}; {_many(loses, 'finding')} of lost data {took}"
    if loses:
        return f"training would run and lose data: {_many(loses, 'finding')} {took}"
    return f"training would neither fail nor lose data {took}"
