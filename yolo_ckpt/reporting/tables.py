"""Tables on the shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.lines import plan_lines
from yolo_ckpt.units import format_bytes, format_ms


class _Stage(Protocol):
    @property
    def kept_bytes(self) -> int: ...


class _Measured(Protocol):
    @property
    def peak_bytes(self) -> int: ...
    @property
    def stages(self) -> tuple[_Stage, ...]: ...


class _Way(Protocol):
    @property
    def way(self) -> str: ...
    @property
    def fits(self) -> bool: ...
    @property
    def live_bytes(self) -> int | None: ...
    @property
    def allocated_bytes(self) -> int | None: ...
    @property
    def step_ms(self) -> float | None: ...
    @property
    def step_ratio(self) -> float | None: ...
    @property
    def difference(self) -> str | None: ...


def print_bench(ways: Sequence[_Way]) -> None:
    """What each way of running the step needs, the first being what the others are compared with."""
    table = Table("way", "peak allocated", "peak of tensors", "step", "x", "same bits", box=None, pad_edge=False)
    for way in ways:
        if not way.fits:
            table.add_row(way.way, "does not fit")
            continue
        sizes = ["" if b is None else format_bytes(b) for b in (way.allocated_bytes, way.live_bytes)]
        times = ["" if way.step_ms is None else format_ms(way.step_ms)]
        times += ["" if way.step_ratio is None else f"{way.step_ratio:.2f}"]
        table.add_row(way.way, *sizes, *times, "yes" if way.difference is None else "no")
    console = Console()
    console.print(table)
    for way in ways:
        if way.difference is not None:
            console.print(f"{way.way} is not the same training: {way.difference}", markup=False, highlight=False)


def print_plan(plan: Plan, stock: _Measured, planned: _Measured) -> None:
    """The plan stage by stage, with what each stage's forward pass leaves in memory, and both simulated peaks."""
    table = Table("stage", "class", "action", "segment", "stock", "planned", "why not", box=None, pad_edge=False)
    for stage, before, after in zip(plan.stages, stock.stages, planned.stages, strict=True):
        segment = "" if stage.action == "save" else "opens" if stage.opens else "goes on"
        sizes = [format_bytes(m.kept_bytes) for m in (before, after)]
        table.add_row(str(stage.index), stage.kind, stage.action, segment, *sizes, stage.reason)
    console = Console()
    console.print(table)
    for line in plan_lines(plan):
        console.print(line, markup=False, highlight=False)
    ratio = planned.peak_bytes / stock.peak_bytes
    console.print(
        f"simulated peak of a step without the loss and the optimizer: {format_bytes(stock.peak_bytes)} stock, "
        f"{format_bytes(planned.peak_bytes)} planned ({ratio:.0%})",
        highlight=False,
    )
