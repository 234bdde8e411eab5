"""Pictures: a forecast (memory over the training step, stock and planned, and what each stage keeps), and the objects
of a data set in pixels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.files import write_whole
from yolo_ckpt.reporting.steps import Step

MIB = float(1 << 20)
_COLOURS = {"save": "#b0b0b0", "selective": "#4c8ed9", "full": "#1f4e79"}


def plot_forecast(
    path: Path, plan: Plan, stock: Step, planned: Step, *, extra_bytes: int = 0, budget_bytes: int | None = None
) -> None:
    """Write the picture to `path`, whole or not at all; the ending of its name says which format.

    Raises:
        ValueError: The format is not known.
        OSError: It cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), layout="constrained")
    over_time, by_stage = figure.subplots(2, 1)
    _over_time(over_time, stock, planned, extra_bytes, budget_bytes)
    _by_stage(by_stage, plan, stock, planned)
    figure.suptitle(f"ckpt={plan.ckpt}, imgsz={plan.imgsz}, batch={plan.batch}: forecast of one training step")
    _write(path, figure)


def _write(path: Path, figure: Any) -> None:
    content = io.BytesIO()
    figure.savefig(content, dpi=120, format=path.suffix.lstrip(".") or "png")
    write_whole(path, content.getvalue())


def _over_time(axes: Any, stock: Step, planned: Step, extra_bytes: int, budget_bytes: int | None) -> None:
    """Peak of every part of the step, in its order."""
    for step, colour, name in ((stock, "#d9534c", "stock"), (planned, _COLOURS["full"], "planned")):
        peaks = [(w.peak_bytes + extra_bytes) / MIB for w in step.windows]
        axes.step(range(len(peaks)), peaks, where="mid", color=colour, label=name)
    phases = [w.phase for w in stock.windows]
    if "loss" in phases:
        axes.axvline(phases.index("loss"), color="#808080", linewidth=0.8, linestyle=":")
        axes.text(phases.index("loss"), 0, " loss", color="#606060", va="bottom")
    if budget_bytes is not None:
        axes.axhline(budget_bytes / MIB, color="#606060", linewidth=0.8, linestyle="--", label="budget")
    axes.set(xlabel="forward through the stages, loss, backward", ylabel="peak MiB", ylim=(0, None), xticks=[])
    axes.legend(frameon=False)


def _by_stage(axes: Any, plan: Plan, stock: Step, planned: Step) -> None:
    """What each stage leaves in memory for its backward pass."""
    places = range(len(plan.stages))
    axes.bar(places, [max(b, 0) / MIB for b in stock.kept_bytes], width=0.8, color="#f3d6d4", label="stock")
    for action, colour in _COLOURS.items():
        of_action = [s.index for s in plan.stages if s.action == action]
        if of_action:
            kept = [max(planned.kept_bytes[i], 0) / MIB for i in of_action]
            axes.bar(of_action, kept, width=0.5, color=colour, label=action)
    axes.set(ylabel="kept MiB", xticks=list(places))
    axes.set_xticklabels([f"{s.index} {s.kind}" for s in plan.stages], rotation=60, ha="right", fontsize=8)
    axes.legend(frameon=False)


class Sizes(Protocol):
    """Objects in pixels at one size of the images."""

    @property
    def imgsz(self) -> int: ...
    @property
    def objects(self) -> int: ...
    @property
    def below_cell(self) -> int: ...
    @property
    def edges_px(self) -> Sequence[float]: ...
    @property
    def counts(self) -> Sequence[int]: ...


def plot_sizes(path: Path, sizes: Sequence[Sizes], cell_px: int, title: str) -> None:
    """Write histograms of the objects' sizes to `path`, one for each size of the images, with what is smaller than a
    cell of `cell_px` shaded; whole or not at all.

    Raises:
        ValueError: The format is not known.
        OSError: It cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    edges = sizes[0].edges_px
    axes.axvspan(edges[0], cell_px, color="#f6e3e2", zorder=0)
    for each, colour in zip(sizes, ("#d9534c", _COLOURS["full"]), strict=False):
        share = f", {each.below_cell / each.objects:.0%} below {cell_px} px" if each.objects else ""
        axes.stairs(each.counts, each.edges_px, fill=True, alpha=0.25, color=colour)
        axes.stairs(each.counts, each.edges_px, color=colour, linewidth=1.5, label=f"imgsz={each.imgsz}{share}")
    axes.axvline(cell_px, color="#808080", linewidth=0.8, linestyle=":")
    axes.text(
        cell_px, 0.98, f" {cell_px} px: finest cell", color="#606060", va="top", transform=axes.get_xaxis_transform()
    )
    ticks = [2**k for k in range(14)]
    axes.set(xscale="log", xlabel="size of an object: root of width times height, px", ylabel="objects", title=title)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(*_filled(sizes, edges, cell_px))
    axes.margins(y=0.12)
    axes.legend(frameon=False)
    _write(path, figure)


def _filled(sizes: Sequence[Sizes], edges: Sequence[float], cell_px: int) -> tuple[float, float]:
    """The part of the axis in which there is anything, and the cell."""
    bars = [i for i in range(len(edges) - 1) if any(each.counts[i] for each in sizes)] or [0]
    return min(edges[bars[0]], cell_px / 2), max(edges[bars[-1] + 1], cell_px * 2)
