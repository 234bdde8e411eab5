"""The shell's commands about data sets: parse, call, exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.reporting.progress import progress


def sample(arguments: Sequence[str]) -> int:
    """Write a sample data set."""
    from yolo_ckpt.data.samples import SAMPLES, write_sample

    names = [a for a in arguments if "=" not in a]
    options = dict(a.split("=", 1) for a in arguments if "=" in a)
    folder = options.pop("dir", None)
    if len(names) != 1 or options or not folder:
        raise SettingsError(
            f"sample takes a name ({', '.join(SAMPLES)}) and dir=FOLDER, got {' '.join(arguments) or 'nothing'}"
        )
    with progress("writing"):
        yamls, written = write_sample(names[0], Path(folder))
    for yaml in yamls:
        print(f"{yaml} {'written' if written else 'is there already, nothing was written'}")
    return 0
