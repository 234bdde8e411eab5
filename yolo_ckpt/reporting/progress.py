"""What is being worked on, on standard error, while somebody watches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Tell = Callable[[str], None]
Advance = Callable[[str, int, int], None]


def untold(_: str) -> None:
    """For callers whom nobody watches."""


@contextlib.contextmanager
def progress(title: str) -> Iterator[Tell]:
    """A spinner with the time; call what is yielded with the name of each step that begins. Nothing is shown where
    standard error is no terminal, and nothing stays."""
    from rich.console import Console  # here, since it draws a random number when it is first imported
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), SpinnerColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(title, total=None)
        yield lambda step: shown.update(task, description=f"{title}: {step}")


@contextlib.contextmanager
def counted_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with the time that is left; call what is yielded with how many more are done. Nothing is shown where
    standard error is no terminal or there is nothing to do, and nothing stays."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (console.is_terminal and total)) as shown:
        task = shown.add_task(title, total=total)
        yield lambda more: shown.advance(task, more)


@contextlib.contextmanager
def counted() -> Iterator[Advance]:
    """A bar for work that is counted; call what is yielded with what is done, how many are and of how many. Nothing is
    shown where standard error is no terminal, and nothing stays."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)
        yield lambda title, done, total: shown.update(task, description=title, completed=done, total=total)
