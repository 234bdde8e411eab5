"""What is measured while a run trains, and the files that it leaves."""

from __future__ import annotations

import functools
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from yolo_ckpt.hotspots import rounded_parts
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.auto import AutoPlan
from yolo_ckpt.integration.budget import optimizer_bytes
from yolo_ckpt.integration.loggers import log_report
from yolo_ckpt.integration.randomness import random_state_kept
from yolo_ckpt.integration.run import Run
from yolo_ckpt.integration.versions import installed
from yolo_ckpt.measuring import LiveBytes, tensors_in
from yolo_ckpt.reporting import RunReport, forecast_line
from yolo_ckpt.stages import unwrap
from yolo_ckpt.units import format_bytes, format_ms

TRACKED_BATCH = 1  # the second, in which there are gradients, and mostly the optimizer's state


class Follower:
    """The callbacks of one run."""

    def __init__(self, run: Run, base: type[Any]) -> None:
        self.run, self._base = run, base  # the trainer's own class
        self._live: LiveBytes | None = None
        self._live_peak_bytes = 0
        self._later_bytes = 0  # of the optimizer's state, which is not there before its first step
        self._allocated_bytes = 0
        self._reserved_bytes = 0
        self._step_ms: list[float] = []
        self._batches = 0
        self._compared = False
        self._ended = False  # the first epoch
        self._started = 0.0

    def callbacks(self) -> dict[str, Callable[[Any], None]]:
        """The events that the run follows."""
        return {
            "on_train_start": self._train_start,
            "on_train_epoch_start": self._epoch_start,
            "on_train_batch_start": self._batch_start,
            "on_train_batch_end": self._batch_end,
            "on_train_epoch_end": self._epoch_end,
            "on_train_end": self._train_end,
            "teardown": self._teardown,
        }

    def _train_start(self, trainer: Any) -> None:
        self.run.write_plan(trainer)
        self.run.recovery.watch(trainer)
        self.run.validation.watch(trainer, functools.partial(self._base.get_dataloader, trainer))
        if self.run.forecast is not None:
            with random_state_kept():
                self._plot(Path(trainer.save_dir, "ckpt_report.png"), self.run.forecast)

    @staticmethod
    def _plot(path: Path, found: AutoPlan) -> None:
        from yolo_ckpt.reporting.plots import plot_forecast

        plot_forecast(path, found.plan, found.stock, found.planned, extra_bytes=found.extra_bytes)

    def _epoch_start(self, trainer: Any) -> None:
        self._stop_tracking(trainer)  # a batch that failed may have left it on
        self.run.recovery.epoch_starts(trainer)
        if trainer.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(trainer.device)

    def _batch_start(self, trainer: Any) -> None:
        if trainer.device.type != "cuda" and self._batches == self._tracked_batch(trainer):
            self._live = LiveBytes()
            models = [m for m in (trainer.model, compat.ema_model(trainer)) if m is not None]
            tensors = [t for m in models for t in (*m.parameters(), *m.buffers())]
            gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]
            self._live.add([*tensors, *gradients, *tensors_in(compat.optimizer_tensors(trainer))])
            self._later_bytes = _later_bytes(trainer)
            self._live.__enter__()  # type: ignore[no-untyped-call]
        self._started = time.perf_counter()

    def _tracked_batch(self, trainer: Any) -> int:
        return min(TRACKED_BATCH, int(len(trainer.train_loader) * trainer.epochs) - 1)

    def _batch_end(self, trainer: Any) -> None:
        if self._live is None:
            self._step_ms.append((time.perf_counter() - self._started) * 1e3)
        self._stop_tracking(trainer)
        self._batches += 1

    def _stop_tracking(self, _: Any) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._live_peak_bytes = self._live.peak_bytes
            self._live = None

    def _teardown(self, trainer: Any) -> None:
        self._stop_tracking(trainer)
        self.run.compiler.restore()

    def _epoch_end(self, trainer: Any) -> None:
        if not self._ended:
            self._ended = True
            rounded = rounded_parts(unwrap(trainer.model))
            if rounded:
                compat.log(f"equal to stock up to rounding: {', '.join(rounded)}")
        if trainer.device.type == "cuda":  # before validation, which is not what the plan is about
            self._allocated_bytes = max(self._allocated_bytes, torch.cuda.max_memory_allocated(trainer.device))
            self._reserved_bytes = max(self._reserved_bytes, torch.cuda.max_memory_reserved(trainer.device))
            self._later_bytes = _later_bytes(trainer)
        measured = self._allocated_bytes or self._live_peak_bytes
        if self.run.plan is not None and self.run.plan.peak_bytes and measured and not self._compared:
            self._compared = True
            line, warning = forecast_line(self.run.plan.peak_bytes, measured, self._later_bytes)
            compat.log(line, warning=warning)

    def _train_end(self, trainer: Any) -> None:
        if self.run.plan is None:
            return
        report = self.report(trainer)
        files = report.write(Path(trainer.save_dir))
        log_report(trainer, [Path(trainer.save_dir, "ckpt_plan.json"), *files])
        peak = report.allocated_bytes or report.live_bytes
        step = "" if report.step_ms is None else f", {format_ms(report.step_ms)} a step"
        what = "allocated" if report.allocated_bytes else "of tensors"
        compat.log(
            f"peak {format_bytes(peak or 0)} {what}, {format_bytes(report.process_bytes)} of process memory{step}; "
            f"weights in {trainer.wdir}, report in {Path(trainer.save_dir, 'ckpt_report.md')}"
        )

    def report(self, trainer: Any) -> RunReport:
        """What was planned and measured so far."""
        assert self.run.plan is not None
        factor = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
        return RunReport(
            versions=installed(),
            device=_device_name(trainer.device),
            plan=self.run.plan,
            batches=self._batches,
            live_bytes=self._live_peak_bytes or None,
            allocated_bytes=self._allocated_bytes or None,
            reserved_bytes=self._reserved_bytes or None,
            process_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * factor,
            step_ms=statistics.median(self._step_ms) if self._step_ms else None,
            failures=(*self.run.recovery.events, *self.run.validation.events),
            rounded=tuple(rounded_parts(unwrap(trainer.model))),
        )


def _later_bytes(trainer: Any) -> int:
    """What the optimizer's first step will keep, where there was none yet: it comes after 64 images or more."""
    there = tensors_in(compat.optimizer_tensors(trainer))
    return 0 if there else optimizer_bytes(trainer.model, type(trainer.optimizer).__name__)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
