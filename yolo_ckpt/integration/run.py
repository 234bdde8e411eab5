"""One training run: its plan, what is measured while it trains, and the files that it leaves."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from yolo_ckpt import attachment
from yolo_ckpt.errors import RequestError, YoloCkptError
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.auto import AutoPlan, auto_plan
from yolo_ckpt.integration.budget import budget_bytes, extra_bytes, objects_per_image
from yolo_ckpt.integration.compiled import CompilerBudget
from yolo_ckpt.integration.loggers import log_report
from yolo_ckpt.integration.versions import installed
from yolo_ckpt.measuring import LiveBytes, tensors_in
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.reporting import RunReport, auto_line, forecast_line, plan_lines, write_whole
from yolo_ckpt.settings import Settings
from yolo_ckpt.units import format_bytes, format_ms

TRACKED_BATCH = 1  # the second: the optimizer's state exists from then on


class Run:
    """What the callbacks of one `train()` share. Not pickled: the trainer's class and callbacks hold it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.plan: Plan | None = None
        self.compiler = CompilerBudget()
        self._forecast: AutoPlan | None = None
        self._live: LiveBytes | None = None
        self._live_peak_bytes = 0
        self._allocated_bytes = 0
        self._reserved_bytes = 0
        self._step_ms: list[float] = []
        self._batches = 0
        self._compared = False
        self._started = 0.0

    def prepare(self, trainer: Any) -> None:
        """Make the plan and put it on the trainer's model; a second call keeps the plan.

        Raises:
            RequestError: The settings do not fit the model.
        """
        if self.plan is not None:
            return
        if getattr(trainer.args, "compile", False):
            self.compiler.warn(trainer.model)
            return
        self.plan = make_plan(
            trainer.model, self.settings, imgsz=int(trainer.args.imgsz), batch=compat.batch_per_device(trainer)
        )
        attachment.apply(trainer.model, self.plan)
        if self._budget(trainer) is None:
            self._log(plan_lines(self.plan))

    def prepare_for_budget(self, trainer: Any) -> None:
        """With the optimizer and the data known: put the plan for the memory budget on the model, once.

        Raises:
            BudgetInfeasibleError: No plan fits.
        """
        budget = self._budget(trainer)
        if budget is None or self.plan is None or self.plan.peak_bytes is not None:
            return
        found = self._auto_plan(trainer, budget)
        if found is None:
            self._log(plan_lines(self.plan))
            return
        self.plan, self._forecast = found.plan, found
        attachment.apply(trainer.model, self.plan)
        self._log([*plan_lines(self.plan), auto_line(self.plan, budget, found.stock.peak_bytes + found.extra_bytes)])

    def _auto_plan(self, trainer: Any, budget: int) -> AutoPlan | None:
        """The plan for the budget. None where the model's step cannot be simulated and no budget was asked for: then
        the fixed plan stays."""
        labels = getattr(trainer.train_loader.dataset, "labels", [])
        try:
            return auto_plan(
                trainer.model,
                imgsz=compat.largest_imgsz(trainer),
                batch=compat.batch_per_device(trainer),
                budget_bytes=budget,
                stages=self.settings.ckpt_stages,
                objects=objects_per_image(labels, mosaic=bool(getattr(trainer.args, "mosaic", 0))),
                extra_bytes=extra_bytes(trainer),
                amp=torch.float16 if trainer.amp else None,
                device=trainer.device,
            )
        except YoloCkptError:
            raise
        except Exception as error:  # a model's own loss may do anything with tensors that have no content
            why = f"the training step of {type(trainer.model).__name__} cannot be simulated ({type(error).__name__})"
            asked = self.settings.ckpt_budget
            if asked is not None:
                raise RequestError(f"ckpt_budget={asked}: {why}; use ckpt=selective or ckpt=full") from error
            compat.log(f"{why}; going on with selective", warning=True)
            return None

    def _budget(self, trainer: Any) -> int | None:
        """What a step may have alive, where the mode plans for a budget."""
        return budget_bytes(self.settings, trainer.device) if self.settings.ckpt == "auto" else None

    @staticmethod
    def _log(lines: Sequence[str]) -> None:
        for line in lines:
            compat.log(line)

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
        if self.plan is not None:
            write_whole(Path(trainer.save_dir, "ckpt_plan.json"), self.plan.to_json())
        if self._forecast is not None:
            self._plot(Path(trainer.save_dir, "ckpt_report.png"), self._forecast)
            self._forecast = None

    @staticmethod
    def _plot(path: Path, found: AutoPlan) -> None:
        from yolo_ckpt.reporting.plots import plot_forecast

        plot_forecast(path, found.plan, found.stock, found.planned, extra_bytes=found.extra_bytes)

    def _epoch_start(self, trainer: Any) -> None:
        self._stop_tracking(trainer)  # a batch that failed may have left it on
        if trainer.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(trainer.device)

    def _batch_start(self, trainer: Any) -> None:
        if trainer.device.type != "cuda" and self._batches == self._tracked_batch(trainer):
            self._live = LiveBytes()
            models = [m for m in (trainer.model, compat.ema_model(trainer)) if m is not None]
            tensors = [t for m in models for t in (*m.parameters(), *m.buffers())]
            gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]
            self._live.add([*tensors, *gradients, *tensors_in(compat.optimizer_tensors(trainer))])
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
        self.compiler.restore()

    def _epoch_end(self, trainer: Any) -> None:
        if trainer.device.type == "cuda":  # before validation, which is not what the plan is about
            self._allocated_bytes = max(self._allocated_bytes, torch.cuda.max_memory_allocated(trainer.device))
            self._reserved_bytes = max(self._reserved_bytes, torch.cuda.max_memory_reserved(trainer.device))
        measured = self._allocated_bytes or self._live_peak_bytes
        if self.plan is not None and self.plan.peak_bytes and measured and not self._compared:
            self._compared = True
            line, warning = forecast_line(self.plan.peak_bytes, measured)
            compat.log(line, warning=warning)

    def _train_end(self, trainer: Any) -> None:
        if self.plan is None:
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
        assert self.plan is not None
        factor = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
        return RunReport(
            versions=installed(),
            device=_device_name(trainer.device),
            plan=self.plan,
            batches=self._batches,
            live_bytes=self._live_peak_bytes or None,
            allocated_bytes=self._allocated_bytes or None,
            reserved_bytes=self._reserved_bytes or None,
            process_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * factor,
            step_ms=statistics.median(self._step_ms) if self._step_ms else None,
        )


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
