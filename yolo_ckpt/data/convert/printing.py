"""What a conversion did, on the shell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from yolo_ckpt.data.convert.report import Conversion

_MOST_ROWS = 20


def print_conversion(made: Conversion) -> None:
    """Files that failed and that were left out, what was written, and what was changed or dropped on the way."""
    console = Console()
    _print_reasons(console, made.listed("left out"))
    _print_files(console, made.listed("failed"))
    for line in _lines(made):
        console.print(_shown(line), markup=False, highlight=False, soft_wrap=True)


def _print_reasons(console: Console, files: Sequence[tuple[str, str]]) -> None:
    """What is no picture is often the same for many files."""
    if not files:
        return
    table = Table("left out", "files", "such as", box=None, pad_edge=False)
    for why, count in Counter(why for _, why in files).most_common(_MOST_ROWS):
        table.add_row(_escaped(why), str(count), _escaped(next(name for name, reason in files if reason == why)))
    console.print(table)
    console.print()


def _print_files(console: Console, files: Sequence[tuple[str, str]]) -> None:
    if not files:
        return
    table = Table("failed", "why", box=None, pad_edge=False)
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    for name, why in files[:_MOST_ROWS]:
        table.add_row(_escaped(name), _escaped(why))
    console.print(table)
    if len(files) > _MOST_ROWS:
        more = f"... and {len(files) - _MOST_ROWS} more; convert_report.json and format=json list all"
        console.print(more, markup=False, highlight=False)
    console.print()


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(_shown(text))


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _lines(made: Conversion) -> list[str]:
    converted, failed = (len(made.listed(done)) for done in ("converted", "failed"))
    splits = ", ".join(f"{count} {split}" for split, count in made.images.items() if count)
    lines = [f"converted {converted} of {len(made.files)} files to {sum(made.images.values())} images ({splits})"]
    if made.labels:
        objects = made.total("objects")
        counts = ", ".join(f"{name} {objects[name]}" for name in made.names[:8])
        lines.append(
            f"{made.labels} labels: {sum(objects[n] for n in made.names)} objects ({counts}{_rest(made.names)})"
        )
    if not made.images:
        return [f"converted none of {len(made.files)} files; nothing was written"]
    lines += [f"grey levels: {_counts(made.windows)}", *made.lines]
    lines += [f"{name}: {count}" for name, count in made.total("notes").most_common()]
    dropped = made.total("dropped")
    if dropped:
        most = ", ".join(name for name, _ in dropped.most_common(6))
        lines.append(
            f"not in the output: {len(dropped)} kinds of tags and texts of the files ({most}{_rest(dropped, 6)})"
        )
    lines += [f"failed: {failed} of {len(made.files)} files, listed above"] if failed else []
    if made.unused:
        lines.append(f"labels without an image: {', '.join(made.unused[:4])}{_rest(made.unused, 4)}")
    return [*lines, f"{made.dst / 'data.yaml'} and convert_report.json beside it"]


def _rest(items: Sequence[str] | Counter[str], shown: int = 8) -> str:
    return ", ..." if len(items) > shown else ""


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())
