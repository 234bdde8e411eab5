"""`ckpt=auto`: the plan that adds the least time within a memory budget.

The step is simulated with every action at all stages, which gives the planning problem; its best choices are then
simulated as they are, since what a stage keeps depends a little on its neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from torch import nn

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.clock import Estimated, StageTimes
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.fit import Fits
from yolo_ckpt.integration.forecast import Forecast
from yolo_ckpt.plan import Plan
from yolo_ckpt.planning import NOT_NEEDED, fixed_plan, joins_to_try, plan_of, select_stages
from yolo_ckpt.planning.build import Sample, Window, build_problem, runs_of, scaled
from yolo_ckpt.planning.ladder import climb, relax, rungs, with_lowest
from yolo_ckpt.planning.problem import Choice, Problem
from yolo_ckpt.planning.times import step_ms
from yolo_ckpt.stages import facts_of
from yolo_ckpt.units import format_bytes


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

    def peak_bytes(choice: Choice) -> int:
        return search.peak_bytes(search.step(search.plan(choice)))

    choice = climb(ladder, peak_bytes, conditions.budget_bytes)
    if choice is None:
        raise _infeasible(model, conditions, peak_bytes(ladder[0]))
    if choice == ladder[0]:
        least_ms = search.problem.added_ms(ladder[1]) if len(ladder) > 1 else 0.0
        choice = relax(search.problem, choice, peak_bytes, least_ms)
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
        self._steps: dict[tuple[tuple[str, bool], ...], Forecast] = {}
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
        plans = [self.full, self.uniform("selective"), *(self.uniform("full", j) for j in joins_to_try(self.facts))]
        images = batch / self.conditions.batch

        def windows(plan: Plan) -> list[Window]:
            step = self.step(plan)
            return scaled(step.windows, step.fixed_bytes, images)

        samples = [Sample(plan=p, windows=windows(p)) for p in plans]
        return build_problem(windows(self.uniform("save")), samples, self.times.at(batch))

    def uniform(self, action: str, joined: Collection[int] | None = None) -> Plan:
        """The same action at every stage that may have it; for `joined` see `fixed_plan`."""
        sizes = {"imgsz": self.conditions.imgsz, "batch": self.conditions.batch}
        plan = fixed_plan(self.facts, action, self.selected, ckpt="auto", joined=joined, **sizes)
        return replace(plan, attention=self.conditions.attention)

    def plan(self, choice: Choice) -> Plan:
        """The plan that takes `choice`."""
        actions, joined = ["save"] * len(self.facts), set()
        for option in self.problem.chosen(choice):
            for stage in range(option.first, option.last + 1):
                actions[stage] = option.action
            joined |= set(range(option.first + 1, option.last + 1))
        return self.plan_with(actions, joined)

    def plan_with(self, actions: Sequence[str], joined: Collection[int] = ()) -> Plan:
        """The plan with an action for each stage; for `joined` see `fixed_plan`."""
        reasons = [s.reason or NOT_NEEDED for s in self.full.stages]
        sizes = {"imgsz": self.conditions.imgsz, "batch": self.conditions.batch}
        plan = plan_of(self.facts, actions, reasons, joined, ckpt="auto", **sizes)
        return replace(plan, attention=self.conditions.attention)

    def ladder(self) -> list[Choice]:
        """The rungs; below the lowest comes `full` everywhere, where that needs less than the problem says."""
        ladder = rungs(self.problem)
        places = {(o.first, o.last, o.action): i for i, o in enumerate(self.problem.options)}
        everywhere = tuple(places[first, last, self.full.stages[first].action] for first, last in runs_of(self.full))
        if self.step(self.full).peak_bytes >= self.step(self.plan(ladder[0])).peak_bytes:
            return ladder
        return with_lowest(self.problem, ladder, everywhere)

    def step(self, plan: Plan) -> Forecast:
        """The simulated step with `plan`."""
        key = tuple((s.action, s.opens) for s in plan.stages)
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
