"""The shell's commands about data sets: parse, call, exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from yolo_ckpt.errors import SettingsError


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
    yaml, written = write_sample(names[0], Path(folder))
    print(f"{yaml} {'written' if written else 'is there already, nothing was downloaded'}")
    return 0


def convert(arguments: Sequence[str]) -> int:
    """Convert images and labels to a YOLO data set; 1 where a file failed."""
    from yolo_ckpt.data.convert.request import Request

    request = Request.parse(arguments)
    from yolo_ckpt.data.convert.run import convert_data
    from yolo_ckpt.reporting.progress import counted

    with counted() as advance:
        made = convert_data(request, advance)
    if request.json:
        print(json.dumps(made.record(private=False), ensure_ascii=False))
    else:
        from yolo_ckpt.reporting.conversions import print_conversion

        print_conversion(made)
    return 1 if made.listed("failed") else 0
