"""A new folder that is there whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yolo_ckpt.errors import YoloCkptError


@contextmanager
def new_folder(target: Path, option: str, error: type[YoloCkptError]) -> Iterator[Path]:
    """A folder to write to, on the disk of `target`, which is not there yet or empty. At the end what is in it goes to
    `target`; if anything fails, or the folder was taken away, it is gone and `target` is as it was.

    A folder that is there stays: it may be a link, a mounted disk, or the one that the shell is in.

    Args:
        target: Where it goes.
        option: How the user gave it, for messages.
        error: What is raised.

    Raises:
        YoloCkptError: There is no place for it.
    """
    inside = target.is_dir()
    name = target.resolve().name or "new"
    try:
        place = target if inside else target.parent
        place.mkdir(parents=True, exist_ok=True)
        partial = tempfile.TemporaryDirectory(dir=place, prefix=f".{name}.", ignore_cleanup_errors=True)
    except OSError as said:
        raise error(f"{option}={target} cannot be written ({said.strerror}); give a folder that can") from said
    with partial as made:
        folder = Path(made) / name
        folder.mkdir()
        yield folder
        if not folder.is_dir():
            return
        try:
            _move(folder, target, inside=inside)
        except OSError as said:
            raise error(f"{option}={target} cannot be put in place ({said.strerror}); give a new folder") from said


def _move(folder: Path, target: Path, *, inside: bool) -> None:
    if not inside:
        folder.rename(target)
        return
    moved: list[Path] = []
    try:
        for child in sorted(folder.iterdir()):
            moved.append(child.rename(target / child.name))
    except OSError:
        for child in moved:
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        raise
