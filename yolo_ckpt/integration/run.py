"""One training run: its sizes and its plan, and what becomes of them when memory was not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from yolo_ckpt import attachment
from yolo_ckpt.errors import RequestError, YoloCkptError
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.auto import AutoPlan, auto_plan
from yolo_ckpt.integration.autobatch import MOST, choose_batch, choose_imgsz
from yolo_ckpt.integration.budget import budget_bytes, extra_bytes, objects_per_image
from yolo_ckpt.integration.clock import Measured, StageTimes
from yolo_ckpt.integration.compiled import CompilerBudget
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.preflight import Preflight
from yolo_ckpt.integration.randomness import random_state_kept
from yolo_ckpt.integration.recovery import Recovery
from yolo_ckpt.integration.validation import Validation
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.planning import is_tightest
from yolo_ckpt.reporting import auto_line, loss_line, plan_lines, write_whole
from yolo_ckpt.settings import Settings
from yolo_ckpt.units import format_bytes

TIGHTER = 0.75  # of the present plan's peak: what the next one may need after a step did not fit

T = TypeVar("T")


class Run:
    """What the callbacks of one `train()` share. Not pickled: the trainer's class and callbacks hold it.

    Attributes:
        settings: The flags.
        plan: What is on the model; None before, and where nothing is planned.
        forecast: The simulated steps behind a plan for a budget.
        conditions: What these were simulated for.
        compiler: The budget of `torch.compile`.
        largest: `imgsz=max` was asked for.
        recovery: What becomes of steps that do not fit.
        validation: How validation is kept small.
        preflight: The look at the data.
    """

    def __init__(self, settings: Settings, *, largest: bool = False) -> None:
        self.settings = settings
        self.plan: Plan | None = None
        self.forecast: AutoPlan | None = None
        self.conditions: Conditions | None = None
        self.compiler = CompilerBudget()
        self.largest = largest
        self._share = 1.0  # of the budget, where `batch` is one
        self._times: StageTimes | None = None
        self._decided = False  # the plan for the budget, where there is one
        self.recovery = Recovery(self.tighten)
        self.validation = Validation()
        self.preflight = Preflight()

    def choose_imgsz(self, trainer: Any) -> None:
        """With `imgsz=max`: set the largest size that fits, once.

        Raises:
            RequestError: There is no budget to fit into, or nothing fits.
        """
        if not self.largest:
            return
        self.largest = False
        budget = self._budget(trainer)
        if budget is None or getattr(trainer.args, "compile", False):
            raise RequestError("imgsz=max needs a GPU or ckpt_budget=, and compile=False; give one, or a size")
        batch = compat.batch_per_device(trainer)
        conditions = self._conditions(trainer, budget, compat.training_set(trainer, batch), batch=batch)
        stride = int(trainer.stride)
        chosen = self._simulated(
            trainer,
            lambda: choose_imgsz(
                trainer.model, conditions, ckpt=self.settings.ckpt, stride=stride, device=trainer.device
            ),
        )
        if chosen is None:
            raise RequestError("imgsz=max needs a training step that can be simulated; give a size")
        scale = 1 + compat.multi_scale(trainer)
        compat.set_imgsz(trainer, int(chosen / scale) // stride * stride)
        compat.log(f"imgsz={trainer.args.imgsz} is the largest for batch={batch} in {format_bytes(budget)}")

    def choose_batch(self, trainer: Any) -> int | None:
        """The batch for `batch=-1` or a share; None, for the host to choose, where there is no budget or where the step
        cannot be simulated."""
        self._share = trainer.batch_size if 0 < trainer.batch_size < 1 else 1.0
        budget = self._budget(trainer)
        if budget is None or getattr(trainer.args, "compile", False):
            return None
        data = compat.training_set(trainer, batch=MOST)
        most = min(len(data) if data is not None else MOST, MOST)
        conditions = self._conditions(trainer, budget, data, batch=1)
        batch = self._simulated(
            trainer,
            lambda: choose_batch(
                trainer.model, conditions, ckpt=self.settings.ckpt, most=most, device=trainer.device,
                times=self._stage_times(trainer, conditions),
            ),
        )  # fmt: skip
        if batch is None:
            return None
        why = "trains the most images per second" if self.settings.ckpt == "auto" else "is the largest that fits"
        compat.log(f"batch={batch} {why} at imgsz={conditions.imgsz} in {format_bytes(budget)} ({most} at most)")
        return batch

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
        batch = 1 if trainer.batch_size < 1 else compat.batch_per_device(trainer)
        self.plan = make_plan(trainer.model, self.settings, imgsz=int(trainer.args.imgsz), batch=batch)
        attachment.apply(trainer.model, self.plan)

    def prepare_for_budget(self, trainer: Any) -> None:
        """With the optimizer and the data known: put the plan for the memory budget on the model, once.

        Raises:
            BudgetInfeasibleError: No plan fits.
        """
        if self.plan is None or self._decided:
            return
        self._decided = True
        budget = self._budget(trainer)
        self.plan = replace(self.plan, batch=compat.batch_per_device(trainer))
        if budget is None or self.settings.ckpt != "auto" or not self._plan_for(trainer, budget):
            self._log(plan_lines(self.plan))

    def _plan_for(self, trainer: Any, budget: int) -> bool:
        """Put the plan for `budget` on the model; False where its step cannot be simulated."""
        data = trainer.train_loader.dataset
        conditions = self._conditions(trainer, budget, data, batch=compat.batch_per_device(trainer))
        conditions = replace(conditions, extra_bytes=extra_bytes(trainer.model, type(trainer.optimizer).__name__))
        found = self._simulated(
            trainer,
            lambda: auto_plan(
                trainer.model, conditions.on(trainer.device, trainer.model), self._stage_times(trainer, conditions)
            ),
        )
        if found is None:
            return False
        self.plan, self.forecast, self.conditions = found.plan, found, conditions
        attachment.apply(trainer.model, self.plan)
        stock = found.stock.peak_bytes + found.extra_bytes
        self._log([*plan_lines(self.plan), auto_line(self.plan, budget, stock)])
        warning = loss_line(found.planned, conditions.objects)
        if warning is not None and self.plan.planned:
            compat.log(warning, warning=True)
        return True

    def peaks_with(self, trainer: Any, sides: tuple[float, float]) -> tuple[int | None, int | None]:
        """Forecast peaks of a step with this run's plan: as it is, and with images of other `sides`. None where
        nothing was forecast, and where targets as large as the images would be made in memory for it."""
        if self.forecast is None or self.conditions is None or trainer.args.task in ("semantic", "depth"):
            return None, None
        with random_state_kept():
            other = replace(self.conditions, sides=sides).simulated(trainer.model).step(self.forecast.plan)
        return self.forecast.plan.peak_bytes, other.peak_bytes + self.forecast.extra_bytes

    def tighten(self, trainer: Any) -> bool:
        """Put a plan with a smaller peak on the model, for the batch that it has; False where there is none."""
        if self.plan is None or is_tightest(self.plan):
            return False
        with random_state_kept():
            self._tighten(trainer, self.plan)
        self.write_plan(trainer)
        return True

    def _tighten(self, trainer: Any, plan: Plan) -> None:
        try:
            if plan.peak_bytes is not None and self._plan_for(trainer, int(TIGHTER * plan.peak_bytes)):
                return
        except RequestError:
            pass  # there is none; what follows is the tightest plan
        settings = replace(self.settings, ckpt="full")
        sizes = {"imgsz": int(trainer.args.imgsz), "batch": compat.batch_per_device(trainer)}
        self.plan = make_plan(trainer.model, settings, **sizes)
        attachment.apply(trainer.model, self.plan)
        self._log(plan_lines(self.plan))

    def _conditions(self, trainer: Any, budget: int, data: Any, *, batch: int) -> Conditions:
        """What the run's steps depend on."""
        labels = getattr(data, "labels", None) or []
        mosaic = bool(getattr(trainer.args, "mosaic", 0)) and not getattr(data, "rect", False)
        optimizer = compat.optimizer_name(trainer, len(data) if data is not None else 0)
        return Conditions(
            imgsz=compat.largest_imgsz(trainer),
            batch=batch,
            budget_bytes=budget,
            stages=self.settings.ckpt_stages,
            attention=self.settings.ckpt_attention,
            objects=objects_per_image(labels, mosaic=mosaic),
            extra_bytes=extra_bytes(trainer.model, optimizer),
            amp=compat.amp_dtype(trainer),
            device=trainer.device.type,
            sides=compat.largest_sides(data),
        )

    def _stage_times(self, trainer: Any, conditions: Conditions) -> StageTimes:
        """Times of the stages on the run's device."""
        if self._times is None:
            work = replace(conditions, batch=1).simulated(trainer.model).work()
            self._times = Measured(
                trainer.model, work, imgsz=conditions.size, amp=conditions.amp, device=trainer.device
            )
        return self._times

    def write_plan(self, trainer: Any) -> None:
        """Write the plan into the run folder."""
        if self.plan is not None:
            write_whole(Path(trainer.save_dir, "ckpt_plan.json"), self.plan.to_json())

    def _simulated(self, trainer: Any, answer: Callable[[], T]) -> T | None:
        """What `answer` finds by simulation. None where the model's step cannot be simulated and no budget was asked
        for."""
        try:
            return answer()
        except YoloCkptError:
            raise
        except Exception as error:  # a model's own loss may do anything with tensors that have no content
            why = f"the training step of {type(trainer.model).__name__} cannot be simulated ({type(error).__name__})"
            asked = self.settings.ckpt_budget
            if asked is not None:
                raise RequestError(f"ckpt_budget={asked}: {why}; use ckpt=selective or ckpt=full") from error
            compat.log(f"{why}; going on without a forecast", warning=True)
            return None

    def _budget(self, trainer: Any) -> int | None:
        """What a step may have alive, where that is known."""
        budget = budget_bytes(self.settings, trainer.device)
        return None if budget is None else int(budget * self._share)

    @staticmethod
    def _log(lines: Sequence[str]) -> None:
        for line in lines:
            compat.log(line)
