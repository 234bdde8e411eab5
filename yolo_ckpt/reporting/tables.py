"""Tables on the shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.lines import auto_line, plan_lines
from yolo_ckpt.reporting.steps import Step
from yolo_ckpt.units import format_bytes, format_ms


class _Look(Protocol):
    @property
    def plan(self) -> Plan: ...
    @property
    def stock(self) -> Step: ...
    @property
    def planned(self) -> Step: ...
    @property
    def extra_bytes(self) -> int: ...
    @property
    def budget_bytes(self) -> int | None: ...
    @property
    def recomputed_flops(self) -> Sequence[int]: ...


class _Fit(Protocol):
    @property
    def ckpt(self) -> str: ...
    @property
    def batches(self) -> dict[int, int]: ...
    @property
    def largest_imgsz(self) -> int: ...


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


def print_look(look: _Look) -> None:
    """The plan stage by stage: what each stage leaves in memory without and with it, and what is computed again for it.
    Then the forecast peaks."""
    table = Table("stage", "class", "action", "segment", "stock", "planned", "GFLOP", box=None, pad_edge=False)
    again = look.recomputed_flops
    rows = zip(look.plan.stages, look.stock.kept_bytes, look.planned.kept_bytes, again, strict=True)
    for stage, before, after, flops in rows:
        segment = "" if stage.action == "save" else "opens" if stage.opens else "goes on"
        sizes = [format_bytes(max(size, 0)) for size in (before, after)]
        table.add_row(
            str(stage.index), stage.kind, stage.action, segment, *sizes, f"{flops / 1e9:.1f}" if flops else ""
        )
    console = Console()
    console.print(table)
    lines = plan_lines(look.plan)
    planned, stock = (f.peak_bytes + look.extra_bytes for f in (look.planned, look.stock))
    lines.append(
        f"forecast peak of a training step: {format_bytes(stock)} stock, {format_bytes(planned)} planned "
        f"({planned / stock:.0%}); {format_bytes(look.extra_bytes)} of both for the optimizer, the averaged model and "
        f"the allocator"
    )
    if look.plan.planned and look.plan.added_share is not None:
        total = sum(w.flops for w in look.stock.windows)
        lines.append(
            f"computed again: {sum(again) / 1e9:.1f} GFLOP of convolutions, products and attention, "
            f"{sum(again) / total:.0%} of what a step computes; about {look.plan.added_share:.0%} more time a step (an "
            f"estimate from operations and bytes)"
        )
    if look.budget_bytes is not None and look.plan.ckpt == "auto":
        lines.append(auto_line(look.plan, look.budget_bytes, stock))
    elif look.budget_bytes is not None:
        lines.append(f"{'fits' if planned <= look.budget_bytes else 'does not fit'} {format_bytes(look.budget_bytes)}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_fit(fits: Sequence[_Fit]) -> None:
    """The largest batch by size and mode, and the largest image."""
    sizes = list(fits[0].batches)
    table = Table("ckpt", *(str(s) for s in sizes), "max imgsz", box=None, pad_edge=False)
    for fit in fits:
        table.add_row(fit.ckpt, *(str(fit.batches[s] or "-") for s in sizes), str(fit.largest_imgsz or "-"))
    console = Console()
    console.print(table)
    console.print("the largest batch by imgsz, and the largest imgsz at batch 1; all are forecasts", highlight=False)


class _Gpu(Protocol):
    @property
    def gpu_type(self) -> str: ...
    @property
    def usable_bytes(self) -> int | None: ...
    @property
    def largest_batch(self) -> int: ...
    @property
    def largest_imgsz(self) -> int: ...
    @property
    def fits(self) -> bool: ...


class _Cloud(Protocol):
    @property
    def imgsz(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def gpus(self) -> Sequence[_Gpu]: ...
    @property
    def command(self) -> str: ...


def print_cloud(cloud: _Cloud) -> None:
    """What fits each GPU type, and how to start the training on the cheapest that is large enough."""
    table = Table(
        "gpu_type", "for tensors", f"max batch at {cloud.imgsz}", f"max imgsz at batch {cloud.batch}", "fits",
        box=None, pad_edge=False,
    )  # fmt: skip
    for gpu in cloud.gpus:
        if gpu.usable_bytes is None:
            table.add_row(gpu.gpu_type, "not known here", "", "", "")
            continue
        numbers = [str(n or "-") for n in (gpu.largest_batch, gpu.largest_imgsz)]
        table.add_row(gpu.gpu_type, format_bytes(gpu.usable_bytes), *numbers, "yes" if gpu.fits else "no")
    console = Console()
    console.print(table)
    what = f"imgsz={cloud.imgsz} batch={cloud.batch}"
    lines = ["managed cloud training runs stock code: no plan; all figures are forecasts"]
    if cloud.command:
        lines += [f"the cheapest type that fits {what} (types are in the order of their price by the hour):"]
        lines += [cloud.command]
    else:
        lines += [f"no type fits {what} without a plan; train on a GPU of your own with `yolo-ckpt train`"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
