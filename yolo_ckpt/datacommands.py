"""The shell's commands about data sets: parse, call, exit code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.reporting.progress import progress
from yolo_ckpt.settings import options_in, whole_number

_CHECK = {
    "data": "", "imgsz": "native", "batch": "16", "workers": "8", "cache": "False", "task": "", "plot": "",
    "findings": "few", "full": "False", "format": "table",
}  # fmt: skip


def sample(arguments: Sequence[str]) -> int:
    """Write a sample data set."""
    from yolo_ckpt.data.samples import SAMPLES, write_sample

    names = [a for a in arguments if "=" not in a]
    folder = options_in((a for a in arguments if "=" in a), {"dir": ""})["dir"]
    if len(names) != 1 or not folder:
        raise SettingsError(
            f"sample takes a name ({', '.join(SAMPLES)}) and dir=FOLDER, got {' '.join(arguments) or 'nothing'}"
        )
    with progress("writing"):
        yamls, written = write_sample(names[0], Path(folder).expanduser())
    for yaml in yamls:
        print(f"{yaml} {'written' if written else 'is there already, nothing was written'}")
    return 0


def check(arguments: Sequence[str]) -> int:
    """Look at a data set before it is trained on; 1 where training would fail or lose data."""
    options = options_in(arguments, _CHECK)
    if not options["data"]:
        raise SettingsError("data= is missing; give the data set's YAML")
    for name, known in {"findings": ("few", "all"), "format": ("table", "json")}.items():
        if options[name] not in known:
            raise SettingsError(f"{name}={options[name]} is not known; use {' or '.join(known)}")
    asked = _check_options(options)
    from yolo_ckpt.data.check import check as check_data
    from yolo_ckpt.reporting.progress import counted_progress

    report = check_data(asked, counted_progress)
    if options["plot"]:
        _plot_sizes(Path(options["plot"]), report)
    if options["format"] == "json":
        print(json.dumps({"schema": 1, **dataclasses.asdict(report)}))
    else:
        from yolo_ckpt.data.check.printing import print_check

        print_check(report, everything=options["findings"] == "all")
    return 0 if report.fine else 1


def _check_options(options: dict[str, str]) -> Any:
    from yolo_ckpt.data.check import Options

    imgsz = 0 if options["imgsz"] == "native" else whole_number("imgsz", options["imgsz"])
    return Options(
        data=options["data"], imgsz=-(-imgsz // 32) * 32, batch=whole_number("batch", options["batch"]),
        workers=whole_number("workers", options["workers"], 0), cache=_cache(options["cache"]), task=options["task"],
        full=_truth("full", options["full"]),
    )  # fmt: skip


def _plot_sizes(path: Path, report: Any) -> None:
    from yolo_ckpt.data.check.statistics import CELL_PX
    from yolo_ckpt.reporting.plots import plot_sizes

    if not report.sizes or not report.sizes[0].objects:
        raise SettingsError(f"plot={path}: {report.data} has no object to draw; correct it first, or leave plot= out")
    try:
        plot_sizes(path, report.sizes, CELL_PX, f"{report.sizes[0].objects:,} objects of {Path(report.data).name}")
    except (OSError, ValueError) as error:
        raise SettingsError(f"plot={path} cannot be written ({error}); give a path that ends with .png") from error


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{name}={text} is not known; use True or False")
    return text.lower() == "true"


def _cache(text: str) -> str:
    known = {"true": "ram", "ram": "ram", "disk": "disk", "false": "", "none": ""}
    if text.lower() not in known:
        raise SettingsError(f"cache={text} is not known; use ram, disk or False")
    return known[text.lower()]


def convert(arguments: Sequence[str]) -> int:
    """Convert images and labels to a YOLO data set; 1 where a file failed."""
    from yolo_ckpt.data.convert.request import Request

    request = Request.parse(arguments)
    from yolo_ckpt.data.convert.run import convert_data
    from yolo_ckpt.reporting.progress import counted

    with counted() as advance:
        made = convert_data(request, advance)
    if request.json:
        print(json.dumps(made.record(private=False)))
    else:
        from yolo_ckpt.data.convert.printing import print_conversion

        print_conversion(made)
    return 1 if made.listed("failed") else 0
