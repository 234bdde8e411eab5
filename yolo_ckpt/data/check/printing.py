"""What a check of a data set found, for people: numbers first, then findings, the worst first."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from yolo_ckpt.data.check.findings import CODES, Finding, Severity
from yolo_ckpt.data.check.memory import HostMemory
from yolo_ckpt.data.check.run import Report
from yolo_ckpt.data.check.statistics import CELL_PX, Pictures, Sizes
from yolo_ckpt.units import format_bytes, many

_FEW = 3  # files shown of each kind of finding
_HEADINGS: dict[Severity, str] = {
    "fails": "training would fail",
    "loses": "training would lose data",
    "note": "to know",
}


def print_check(report: Report, *, everything: bool = False) -> None:
    """The report. The first few files of each kind of finding, or all with `everything`."""
    console = Console()
    guessed = " (guessed from its labels)" if report.task_guessed else ""
    _line(console, f"{report.data}: task={report.task}{guessed}, {many(report.classes, 'class', 'classes')}")
    if report.splits:
        console.print(_splits(report.splits))
        if report.sizes[0].objects:
            console.print(_sizes(report.sizes))
        for text in _advice(report):
            _line(console, text)
    for kind, heading in _HEADINGS.items():
        of_kind = [f for f in report.findings if f.kind == kind]
        if of_kind:
            _line(console, f"\n{heading} ({len(of_kind):,}):")
            _groups(console, of_kind, report.root, None if everything else _FEW)
    _line(console, "\n" + _verdict(report))


def _line(console: Console, text: str) -> None:
    shown = "\n".join(part if part.isprintable() else ascii(part)[1:-1] for part in text.split("\n"))
    console.print(shown, markup=False, highlight=False, soft_wrap=True)


def _splits(splits: Mapping[str, Pictures]) -> Table:
    table = Table("", *splits, box=None, pad_edge=False)
    rows: dict[str, Callable[[Pictures], str]] = {
        "images": lambda p: f"{p.listed:,}" if p.listed == p.used else f"{p.listed:,}, {p.used:,} of them usable",
        "background": lambda p: f"{p.background:,}",
        "objects": lambda p: f"{p.objects:,}",
        "in an image": lambda p: f"{p.mean_objects:.1f}, at most {p.most_objects:,}",
        "longer side": lambda p: f"{_span(p.least_side, p.largest_side)} px, {many(p.sizes, 'size')}",
        "files": lambda p: "\n".join(f"{count:,} x {kind}" for kind, count in list(p.kinds.items())[:4]),
    }
    for name, text in rows.items():
        table.add_row(name, *(text(p) for p in splits.values()))
    return table


def _span(least: int, most: int) -> str:
    return f"{most}" if least == most else f"{least} to {most}"


def _sizes(sizes: Sequence[Sizes]) -> Table:
    table = Table("\nobjects", *(f"\nat imgsz={each.imgsz}" for each in sizes), box=None, pad_edge=False)
    table.add_row("half are below", *(f"{each.median_px:.1f} px" for each in sizes))
    table.add_row("a tenth below", *(f"{each.tenth_px:.1f} px" for each in sizes))
    for name, field in ((f"below {CELL_PX} px", "below_cell"), (f"a side below {CELL_PX} px", "thinner_than_cell")):
        counts = [(getattr(each, field), each.objects) for each in sizes]
        table.add_row(name, *(f"{count:,} ({count / total:.1%})" for count, total in counts))
    return table


def _advice(report: Report) -> list[str]:
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
        lines.append(f"{many(report.undecoded, 'image')} in doubt not decoded; full=True decodes all")
    return lines


def _memory(memory: HostMemory, batch: int) -> str:
    loads = f"{many(memory.workers, 'worker')} of {format_bytes(memory.worker_bytes)}"
    parts = [loads if memory.workers else "no worker process"]
    if memory.val_workers:
        parts.append(f"{memory.val_workers:,} for validation of {format_bytes(memory.val_worker_bytes)}")
    parts.append(f"{format_bytes(memory.shared_bytes)} of batches that wait")
    parts.append(f"the cache {'' if memory.cached else 'would be '}{format_bytes(memory.cache_bytes)}")
    return (
        f"host memory of loading at batch={batch}: up to {format_bytes(memory.total_bytes)} of "
        f"{format_bytes(memory.free_bytes)} that are free ({', '.join(parts)})"
    )


def _groups(console: Console, findings: Sequence[Finding], root: str, few: int | None) -> None:
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in findings:
        groups[one.code, one.advice].append(one)
    for (code, advice), group in groups.items():
        _line(console, f"  {len(group):,} {code}: {CODES[code].title}; {advice}")
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


def _verdict(report: Report) -> str:
    fails, loses = (report.counts[kind] for kind in ("fails", "loses"))
    took = f"({report.seconds:.1f} s)"
    if fails:
        return f"training would fail: {many(fails, 'finding')}; {many(loses, 'finding')} of lost data {took}"
    if loses:
        return f"training would run and lose data: {many(loses, 'finding')} {took}"
    return f"training would neither fail nor lose data {took}"
