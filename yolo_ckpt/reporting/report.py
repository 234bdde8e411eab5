"""What a run planned and measured, as JSON for programs and Markdown for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from yolo_ckpt.plan import Plan
from yolo_ckpt.reporting.files import write_whole
from yolo_ckpt.units import format_bytes, format_ms

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """One training run.

    Attributes:
        versions: Of yolo_ckpt, ultralytics, torch and Python.
        device: Name of the device.
        plan: What was on the model.
        batches: Training batches that were run.
        live_bytes: Peak tensor storage alive in one training step (measured off CUDA).
        allocated_bytes: Peak bytes allocated by training steps (CUDA).
        reserved_bytes: Peak bytes reserved by the allocator (CUDA).
        process_bytes: Peak resident memory of the process, so far.
        step_ms: Median time of a training step with its data, without the tracked one.
        failures: Steps that did not fit, and what became of them.
        rounded: Parts whose results differ from stock's by rounding: attention in fused kernels, a large mask
            or semantic loss.
    """

    versions: Mapping[str, str]
    device: str
    plan: Plan
    batches: int
    live_bytes: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None
    process_bytes: int
    step_ms: float | None
    failures: tuple[str, ...] = ()
    rounded: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The report as a JSON document, with a schema number."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    def to_markdown(self) -> str:
        """The report for people."""
        rows = [
            ("live bytes at the peak of a step", self.live_bytes, format_bytes),
            ("allocated at the peak", self.allocated_bytes, format_bytes),
            ("reserved at the peak", self.reserved_bytes, format_bytes),
            ("process memory at its peak", self.process_bytes, format_bytes),
            ("time of a step", self.step_ms, format_ms),
        ]
        measured = "\n".join(f"| {name} | {show(value)} |" for name, value, show in rows if value is not None)
        stages = "\n".join(
            f"| {s.index} | {s.kind} | {s.action} | {'' if s.opens else 'goes on'} | {s.reason} |"
            for s in self.plan.stages
        )
        rounded = (
            f"Equal to stock up to rounding: {', '.join(self.rounded)} (attention in fused kernels, which "
            f"`ckpt_attention=stock` avoids; mask and semantic losses where they are large).\n\n"
            if self.rounded
            else ""
        )
        failures = "".join(f"- {line}\n" for line in self.failures)
        failures = f"Steps that did not fit ({len(self.failures)}):\n\n{failures}\n" if failures else ""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"# Training with ckpt={self.plan.ckpt}\n\n"
            f"imgsz {self.plan.imgsz}, batch {self.plan.batch}, {self.batches} batches, {self.device}; {versions}.\n\n"
            f"| measured | |\n|---|---|\n{measured}\n\n{rounded}{failures}"
            f"| stage | class | action | segment | why not |\n|---|---|---|---|---|\n{stages}\n"
        )

    def write(self, folder: Path) -> list[Path]:
        """Write `ckpt_report.json` and `ckpt_report.md` into `folder`, each whole or not at all; their paths."""
        written = []
        for name, text in (("ckpt_report.json", self.to_json()), ("ckpt_report.md", self.to_markdown())):
            write_whole(folder / name, text)
            written.append(folder / name)
        return written
