"""Forecasts of the files in configs/, written into their comments.

    python benchmarks/configs.py                                  # all of them, one to four minutes each
    python benchmarks/configs.py configs/aerial-8gb.yaml
    python benchmarks/configs.py way=selective configs/*.yaml     # a tenth of the time

For each file the training step is simulated with its model, size and batch, in half precision, on the smallest card of
its class, with as many objects in an image as its field has; nothing is measured. The plan is the one that the file
asks for, or with `way=selective` that mode: where it fits the budget, `auto` has a plan that takes no more time, and
the comment says so. A file whose step does not fit keeps its comment, and the exit status is 1.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from yolo_ckpt.errors import BudgetInfeasibleError, RequestError
from yolo_ckpt.integration.look import Look, Target, look
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.planning.cards import TOTAL_MIB, usable_bytes
from yolo_ckpt.settings import split_flags
from yolo_ckpt.units import format_bytes

FOLDER = Path(__file__).parents[1] / "configs"
CARDS = {8: "rtx4060", 12: "rtx4070", 24: "a10", 48: "l40s", 80: "h100"}  # the smallest of each class, by memory
OBJECTS = {"aerial": 100, "medical": 30, "industrial": 30}  # in one image
MARK = "# forecast"


@dataclass(frozen=True, kw_only=True)
class Config:
    """One file: its field, card, arguments and text."""

    path: Path
    field: str
    card: str
    arguments: dict[str, Any]
    text: str

    @classmethod
    def read(cls, path: Path) -> Config:
        """The file at `path`, which is called as `aerial-8gb.yaml` is."""
        field, size = re.fullmatch(r"(\w+)-(\d+)gb", path.stem).groups()  # type: ignore[union-attr]
        text = path.read_text(encoding="utf-8")
        return cls(path=path, field=field, card=CARDS[int(size)], arguments=yaml.safe_load(text), text=text)

    @property
    def architecture(self) -> str:
        """The model's YAML file: weights need not be there for a forecast."""
        return f"{Path(self.arguments['model']).stem}.yaml"

    @property
    def flags(self) -> dict[str, str]:
        """Our flags in the file."""
        ours, _ = split_flags(f"{key}={value}" for key, value in self.arguments.items())
        return ours


def forecast(config: Config, way: str) -> Look:
    """The plan in the mode `way`, and its forecast.

    Raises:
        RequestError: It does not fit the budget.
    """
    target = Target.of(gpu=config.card, budget=config.flags["ckpt_budget"], amp="")
    found = look(
        load_model(config.architecture, "meta"), {**config.flags, "ckpt": way}, target,
        imgsz=config.arguments["imgsz"], batch=config.arguments["batch"], objects=OBJECTS[config.field],
    )  # fmt: skip
    assert found.budget_bytes is not None
    if found.plan.peak_bytes > found.budget_bytes:
        raise BudgetInfeasibleError(
            f"{way} needs {format_bytes(found.plan.peak_bytes)} of {format_bytes(found.budget_bytes)}"
        )
    return found


def comment(config: Config, found: Look) -> list[str]:
    """The lines that say it."""
    assert found.budget_bytes is not None
    way = found.plan.ckpt
    squares = "squares of imgsz, the most that rect makes" if config.arguments["rect"] else "squares of imgsz"
    said = f"about {found.plan.added_share or 0:.0%} more time in a step"
    bound = "" if way == "auto" else "; auto finds a plan that takes no more"
    return [
        f"{MARK}, simulated by benchmarks/configs.py, not measured: {config.card} ({TOTAL_MIB[config.card]:,} MiB),",
        f"# half precision, 80 classes, {OBJECTS[config.field]} objects in an image, {squares}",
        f"#     stock     {format_bytes(found.stock.peak_bytes + found.extra_bytes)}",
        f"#     {way:<10}{format_bytes(found.plan.peak_bytes)}, {said}{bound}",
        f"#     budget    {format_bytes(found.budget_bytes)}, {config.flags['ckpt_budget']} of the "
        f"{format_bytes(usable_bytes(config.card))} that tensors can have",
    ]


def rewritten(text: str, lines: list[str]) -> str:
    """`text` with its forecast, which ends where the arguments begin, replaced."""
    head, _, rest = text.partition(f"\n{MARK}")
    arguments = rest[rest.index("\nmodel:") :]
    return "\n".join([head, *lines]) + arguments


def main() -> None:
    """Write the forecasts of the files that the arguments name, or of all."""
    failed = False
    options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    paths = [Path(argument) for argument in sys.argv[1:] if "=" not in argument]
    for path in paths or sorted(FOLDER.glob("*.yaml")):
        config = Config.read(path)
        try:
            lines = comment(config, forecast(config, options.get("way", config.flags["ckpt"])))
        except RequestError as error:
            print(f"{path}: {error}", flush=True)
            failed = True
            continue
        path.write_text(rewritten(config.text, lines), encoding="utf-8")
        print(f"{path}\n" + "\n".join(lines[2:]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
