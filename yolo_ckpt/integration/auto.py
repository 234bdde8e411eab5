"""`ckpt=auto`: the plan that adds the least time within a memory budget.

The step is simulated with every action at all stages, which gives the planning problem; its best choices are then
simulated as they are, since what a stage keeps depends a little on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.clock import Estimated, StageTimes
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.fit import Fits
from yolo_ckpt.integration.forecast import Forecast
from yolo_ckpt.plan import Plan
from yolo_ckpt.planning import NOT_NEEDED, fixed_plan, plan_of, select_stages
from yolo_ckpt.planning.build import build_problem, scaled, units_of
from yolo_ckpt.planning.ladder import Choice, climb, rungs
from yolo_ckpt.planning.problem import Problem
from yolo_ckpt.planning.times import step_ms
from yolo_ckpt.stages import facts_of
from yolo_ckpt.units import format_bytes

ACTIONS = ("save", "selective", "full")


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """A plan with the forecasts that led to it.

    Attributes:
        plan: What to put on the model; its `peak_bytes` and `added_share` are filled in.
        planned: The step with it.
        stock: The step without.
    """

    plan: Plan
    planned: Forecast
    stock: Forecast

    @property
    def extra_bytes(self) -> int:
        """What was counted on top of the step."""
        assert self.plan.peak_bytes is not None
        return self.plan.peak_bytes - self.planned.peak_bytes


def auto_plan(model: nn.Module, conditions: Conditions, times: StageTimes | None = None) -> AutoPlan:
    """The plan with the least added time whose simulated peak, with the extra bytes, is within the budget.

    Where that is stock, it leaves every stage as it is. `times` are measured ones; without, they are estimated.

    Raises:
        BudgetInfeasibleError: There is none; it names what would fit.
        SettingsError: `stages` names no stage.
    """
    search = Search(model, conditions, times)
    untouched = search.plan_with(["save"] * len(search.facts))
    stock = search.step(untouched)
    if search.fits(stock):
        untouched = replace(untouched, peak_bytes=search.peak_bytes(stock), added_share=0.0)
        return AutoPlan(plan=untouched, planned=stock, stock=stock)
    ladder = search.ladder()
    choice = climb(ladder, lambda c: search.peak_bytes(search.step(search.plan(c))), conditions.budget_bytes)
    if choice is None:
        raise _infeasible(model, conditions, search.peak_bytes(search.step(search.plan(ladder[0]))))
    return search.result(choice, stock)


def _infeasible(model: nn.Module, conditions: Conditions, least: int) -> BudgetInfeasibleError:
    """What was asked for does not fit; what would."""
    imgsz, batch = conditions.imgsz, conditions.batch
    fits = Fits(model, conditions)
    smaller = fits.largest_imgsz("full", 0, imgsz, batch)
    fewer = fits.largest_batch("full", imgsz, batch // 2, below=batch) if batch > 1 else 0
    ways = [f"imgsz={smaller} at batch={batch}"] if smaller else []
    ways += [f"batch={fewer} at imgsz={imgsz}"] if fewer else []
    would = f"{' and '.join(ways)} would fit" if ways else "no smaller imgsz fits either"
    return BudgetInfeasibleError(
        f"a budget of {format_bytes(conditions.budget_bytes)} is less than any plan needs for imgsz={imgsz} "
        f"batch={batch}: {format_bytes(least)} at least; {would}, or raise ckpt_budget",
        least_bytes=least,
        largest_imgsz=smaller,
        largest_batch=fewer,
    )


class Search:
    """The simulated steps of one request, each once, and the planning problem that they give."""

    def __init__(self, model: nn.Module, conditions: Conditions, times: StageTimes | None = None) -> None:
        self.conditions = conditions
        self.simulated = conditions.simulated(model)
        self.facts = facts_of(model)
        self.selected = select_stages(conditions.stages, self.facts)
        self.full = self.uniform("full")
        self.units = units_of(self.full)
        self._steps: dict[tuple[str, ...], Forecast] = {}
        self._times = times
        self._problem: Problem | None = None

    @property
    def times(self) -> StageTimes:
        """Measured, or estimated."""
        if self._times is None:
            self._times = Estimated(self.simulated.work(), self.conditions.batch)
        return self._times

    @property
    def problem(self) -> Problem:
        """The planning problem."""
        if self._problem is None:
            self._problem = self.problem_at(self.conditions.batch)
        return self._problem

    def problem_at(self, batch: int) -> Problem:
        """The planning problem with another batch, by what each image needs."""
        steps = {action: self.step(self.uniform(action)) for action in ACTIONS}
        images = batch / self.conditions.batch
        windows = {action: scaled(step.windows, step.fixed_bytes, images) for action, step in steps.items()}
        return build_problem(windows, self.full, self.times.at(batch))

    def uniform(self, action: str) -> Plan:
        """The same action at every stage that may have it."""
        sizes = {"imgsz": self.conditions.imgsz, "batch": self.conditions.batch}
        return fixed_plan(self.facts, action, self.selected, ckpt="auto", **sizes)

    def plan(self, choice: Choice) -> Plan:
        """The plan that takes `choice` (an option per unit)."""
        actions = ["save"] * len(self.facts)
        for stages, option in zip(self.units, self.problem.chosen(choice), strict=True):
            for stage in stages:
                actions[stage] = option.action
        return self.plan_with(actions)

    def plan_with(self, actions: Sequence[str]) -> Plan:
        """The plan with an action for each stage."""
        reasons = [s.reason or NOT_NEEDED for s in self.full.stages]
        sizes = {"imgsz": self.conditions.imgsz, "batch": self.conditions.batch}
        return plan_of(self.facts, actions, reasons, ckpt="auto", **sizes)

    def ladder(self) -> list[Choice]:
        """The rungs; below the lowest comes `full` everywhere, where that needs less than the problem says."""
        ladder = rungs(self.problem)
        everywhere = tuple(len(options) - 1 for options in self.problem.units)
        if self.step(self.plan(everywhere)).peak_bytes < self.step(self.plan(ladder[0])).peak_bytes:
            ladder.insert(0, everywhere)
        return ladder

    def step(self, plan: Plan) -> Forecast:
        """The simulated step with `plan`."""
        key = tuple(s.action for s in plan.stages)
        if key not in self._steps:
            self._steps[key] = self.simulated.step(plan)
        return self._steps[key]

    def peak_bytes(self, step: Forecast) -> int:
        """All that is alive at the peak of `step`."""
        return step.peak_bytes + self.conditions.extra_bytes

    def fits(self, step: Forecast) -> bool:
        """True when it is within the budget."""
        return self.peak_bytes(step) <= self.conditions.budget_bytes

    def result(self, choice: Choice, stock: Forecast) -> AutoPlan:
        """The plan with its forecast."""
        plan = self.plan(choice)
        planned = self.step(plan)
        share = self.problem.added_ms(choice) / step_ms(self.times.at(self.conditions.batch))
        plan = replace(plan, peak_bytes=self.peak_bytes(planned), added_share=share, added_measured=self.times.measured)
        return AutoPlan(plan=plan, planned=planned, stock=stock)
