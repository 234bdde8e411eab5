"""Tables on the shell."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.table import Table

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.lines import plan_lines
from yolo_ckpt.units import format_bytes


class _Stage(Protocol):
    @property
    def kept_bytes(self) -> int: ...


class _Measured(Protocol):
    @property
    def peak_bytes(self) -> int: ...
    @property
    def stages(self) -> tuple[_Stage, ...]: ...


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
