"""Forecasts of the files in configs/, written into their comments.

    python benchmarks/configs.py                       # all of them; minutes
    python benchmarks/configs.py configs/aerial-8gb.yaml

For each file the training step is simulated with its model, size and batch, in half precision, on the smallest card of
its class, with as many objects in an image as its field has; nothing is measured. A file whose step does not fit keeps
its comment, and the exit status is 1.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration.look import Look, Target, look
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.planning.cards import TOTAL_MIB, usable_bytes
from yolo_ckpt.settings import split_flags
from yolo_ckpt.units import format_bytes

FOLDER = Path(__file__).parents[1] / "configs"
CARDS = {8: "rtx4060", 12: "rtx4070", 24: "a10", 48: "l40s", 80: "h100"}  # the smallest of each class, by memory
OBJECTS = {"aerial": 300, "medical": 30, "industrial": 30}  # in one image, after mosaic
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


def forecast(config: Config) -> Look:
    """The plan and its forecast.

    Raises:
        RequestError: Nothing fits.
    """
    target = Target.of(gpu=config.card, budget=config.flags["ckpt_budget"], amp="")
    return look(
        load_model(config.architecture, "meta"), config.flags, target, imgsz=config.arguments["imgsz"],
        batch=config.arguments["batch"], objects=OBJECTS[config.field],
    )  # fmt: skip


def comment(config: Config, found: Look) -> list[str]:
    """The lines that say it."""
    assert found.budget_bytes is not None
    squares = "squares of imgsz, the most that rect makes" if config.arguments["rect"] else "squares of imgsz"
    added = f"{found.plan.added_share or 0:.0%}"
    return [
        f"{MARK}, simulated by benchmarks/configs.py, not measured: {config.card} ({TOTAL_MIB[config.card]:,} MiB),",
        f"# half precision, 80 classes, {OBJECTS[config.field]} objects in an image, {squares}",
        f"#     stock     {format_bytes(found.stock.peak_bytes + found.extra_bytes)}",
        f"#     planned   {format_bytes(found.plan.peak_bytes)}, with about {added} more time in a step",
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
    for path in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.yaml")):
        config = Config.read(path)
        try:
            lines = comment(config, forecast(config))
        except RequestError as error:
            print(f"{path}: {error}", flush=True)
            failed = True
            continue
        path.write_text(rewritten(config.text, lines), encoding="utf-8")
        print(f"{path}\n" + "\n".join(lines[2:]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
