"""What is being worked on, on standard error, while somebody watches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Tell = Callable[[str], None]


def untold(_: str) -> None:
    """For callers whom nobody watches."""


@contextlib.contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Tell]:
    """A bar (with `total` steps) or a spinner; call what is yielded with the name of each step that begins. Nothing is
    shown where standard error is no terminal, and nothing stays."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = [BarColumn(), MofNCompleteColumn()] if total else [SpinnerColumn()]
    shown = Progress(
        TextColumn("{task.description}"), *columns, TimeElapsedColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with shown:
        task = shown.add_task(title, total=total)
        begun = False

        def tell(step: str) -> None:
            nonlocal begun
            shown.update(task, description=f"{title}: {step}", advance=1 if begun else 0)
            begun = True

        yield tell
