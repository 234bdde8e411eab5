"""What is being worked on, on standard error, while somebody watches."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

Tell = Callable[[str], None]
Advance = Callable[[str, int, int], None]


def untold(_: str) -> None:
    """For callers whom nobody watches."""


@contextlib.contextmanager
def progress(title: str) -> Iterator[Tell]:
    """A spinner with the time; call what is yielded with the name of each step that begins. Nothing is shown where
    standard error is no terminal, and nothing stays."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), SpinnerColumn(), TimeElapsedColumn())
    with _console() as console, Progress(*columns, **_shown(console)) as shown:
        task = shown.add_task(title, total=None)
        yield lambda step: shown.update(task, description=f"{title}: {step}")


@contextlib.contextmanager
def counted_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for work of which there is `total`; call what is yielded with how many more are done."""
    done = 0
    with counted() as advance:

        def step(more: int) -> None:
            nonlocal done
            done += more
            advance(title, done, total)

        yield step


@contextlib.contextmanager
def counted() -> Iterator[Advance]:
    """A bar with the time that it took and that is left; call what is yielded with what is done, how many are and of
    how many. Nothing is shown before, nor where standard error is no terminal, and nothing stays."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with _console() as console, Progress(*columns, **_shown(console)) as shown:
        task = shown.add_task("", total=None, visible=False)
        yield lambda title, done, total: shown.update(
            task, description=title, completed=done, total=total, visible=True
        )


def _shown(console: Any) -> dict[str, Any]:
    return {"console": console, "transient": True, "disable": not console.is_terminal}


@contextlib.contextmanager
def _console() -> Iterator[Any]:
    """Standard error, as a terminal by a descriptor of its own: decoders' C libraries write there as well, and the
    usual one is turned away from them meanwhile."""
    from rich.console import Console  # here, since it draws a random number when it is first imported

    if not sys.stderr.isatty():
        yield Console(stderr=True)
        return
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding) as file:
        yield Console(file=file)
