"""`ckpt=auto`: the plan that adds the least time within a memory budget.

The step is simulated with every action at all stages, which gives the planning problem; its best choices are then
simulated as they are, since what a stage keeps depends a little on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.forecast import OBJECTS, Forecast, Simulated
from yolo_ckpt.plan import Plan
from yolo_ckpt.planning import StageFacts, fixed_plan, plan_of, select_stages
from yolo_ckpt.planning.build import TYPICAL, build_problem, units_of
from yolo_ckpt.planning.ladder import Choice, climb, rungs
from yolo_ckpt.stages import facts_of
from yolo_ckpt.units import format_bytes

CPU = torch.device("cpu")
# On CUDA the allocator gave out 113 to 237 MiB more than a step's tensors in 13 of 15 steps of 5 models (H200,
# benchmarks/results), and 1.1 GiB in two of one model at 2048, which its largest convolutions take for themselves.
CUDA_BYTES = 240 << 20
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


def auto_plan(
    model: nn.Module,
    *,
    imgsz: int,
    batch: int,
    budget_bytes: int,
    stages: str = "all",
    objects: int = OBJECTS,
    extra_bytes: int = 0,
    amp: torch.dtype | None = None,
    device: torch.device = CPU,
    simulate: str = "",
) -> AutoPlan:
    """The plan with the least added time whose simulated peak, with `extra_bytes` on top, is at most `budget_bytes`.

    Where that is stock, it leaves every stage as it is. See `Simulated` for the arguments. On a CUDA `device` its own
    needs are measured and counted; `simulate="cuda"` plans for one that is not there, without them.

    Raises:
        BudgetInfeasibleError: There is none; the message names the smallest peak that can be reached.
        SettingsError: `stages` names no stage.
    """
    facts = facts_of(model)
    simulated = Simulated(model, imgsz=imgsz, batch=batch, objects=objects, amp=amp, device=simulate or device.type)
    if device.type == "cuda":
        extra_bytes += max(CUDA_BYTES, simulated.workspace_bytes(device))
    selected = select_stages(stages, facts)
    untouched = fixed_plan(facts, "save", selected, ckpt="auto", imgsz=imgsz, batch=batch)
    stock = simulated.step(untouched)
    if stock.peak_bytes + extra_bytes <= budget_bytes:
        untouched = replace(untouched, peak_bytes=stock.peak_bytes + extra_bytes, added_share=0.0)
        return AutoPlan(plan=untouched, planned=stock, stock=stock)
    search = _Search(simulated, facts, selected, extra_bytes)
    ladder = search.ladder()
    choice = climb(ladder, lambda c: search.step(search.plan(c)).peak_bytes + extra_bytes, budget_bytes)
    if choice is None:
        least = search.step(search.plan(ladder[0])).peak_bytes + extra_bytes
        raise BudgetInfeasibleError(
            f"a budget of {format_bytes(budget_bytes)} is less than any plan needs for imgsz={imgsz} batch={batch}: "
            f"{format_bytes(least)} at least; lower imgsz or batch, or raise ckpt_budget"
        )
    return search.result(search.plan(choice), stock)


class _Search:
    """The simulated steps of one request, each once."""

    def __init__(self, simulated: Simulated, facts: list[StageFacts], selected: frozenset[int], extra: int) -> None:
        self.simulated, self.facts, self.selected, self.extra = simulated, facts, selected, extra
        self.full = self.uniform("full")
        self.units = units_of(self.full)
        self._steps: dict[tuple[str, ...], Forecast] = {}
        self._work = simulated.work()
        windows = {action: self.step(self.uniform(action)).windows for action in ACTIONS}
        self.problem = build_problem(windows, self.full, self._work)

    def uniform(self, action: str) -> Plan:
        """The same action at every stage that may have it."""
        sizes = {"imgsz": self.simulated.imgsz, "batch": self.simulated.batch}
        return fixed_plan(self.facts, action, self.selected, ckpt="auto", **sizes)

    def plan(self, choice: Choice) -> Plan:
        """The plan that takes `choice` (an option per unit)."""
        actions = ["save"] * len(self.facts)
        for stages, option in zip(self.units, self.problem.chosen(choice), strict=True):
            for stage in stages:
                actions[stage] = option.action
        reasons = [s.reason or "not needed for the budget" for s in self.full.stages]
        sizes = {"imgsz": self.simulated.imgsz, "batch": self.simulated.batch}
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

    def result(self, plan: Plan, stock: Forecast) -> AutoPlan:
        """The plan with its forecast."""
        planned = self.step(plan)
        actions = {stages[0]: plan.stages[stages[0]].action for stages in self.units}
        added = sum(
            next(o.added_ms for o in options if o.action == actions[stages[0]])
            for stages, options in zip(self.units, self.problem.units, strict=True)
        )
        plan = replace(plan, peak_bytes=planned.peak_bytes + self.extra, added_share=added / self._stock_ms())
        return AutoPlan(plan=plan, planned=planned, stock=stock)

    def _stock_ms(self) -> float:
        """A step's forward pass, and a backward pass of twice its work."""
        return 3 * sum(TYPICAL.cheap_ms(w) + TYPICAL.dear_ms(w) for w in self._work)
