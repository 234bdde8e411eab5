"""Choosing by simulation: the problem's peak is a model, the simulated one counts.

The rungs of a ladder are the best choices for budgets that divide the way from the smallest peak to the largest evenly.
They do not depend on the user's budget. The ladder is climbed by bisection: a rung is taken when its simulated peak is
within the budget. Two budgets walk the same way until a rung fits the larger one alone, and then the larger one goes on
above it: added time never rises as the budget grows.
"""

from __future__ import annotations

from collections.abc import Callable

from yolo_ckpt.planning.exact import smallest_peak, solve_exact
from yolo_ckpt.planning.problem import Choice, Problem

RUNGS = 64


def rungs(problem: Problem) -> list[Choice]:
    """Choices from the smallest peak to the least time, each once, added time falling."""
    lowest = smallest_peak(problem)
    low = problem.peak_bytes(lowest)
    fastest = solve_exact(problem, 1 << 62) or lowest
    high = max(problem.peak_bytes(fastest), low)
    found: list[Choice] = [solve_exact(problem, low) or lowest]
    for step in range(1, RUNGS + 1):
        choice = solve_exact(problem, low + (high - low) * step // RUNGS)
        if choice is not None and problem.added_ms(choice) < problem.added_ms(found[-1]):
            found.append(choice)
    return found


def with_lowest(problem: Problem, ladder: list[Choice], lowest: Choice) -> list[Choice]:
    """The ladder on top of a choice whose simulated peak is below its lowest rung's: those rungs that add less time."""
    return [lowest, *(c for c in ladder if problem.added_ms(c) < problem.added_ms(lowest))]


def climb(ladder: list[Choice], peak_bytes: Callable[[Choice], int], budget_bytes: int) -> Choice | None:
    """The highest rung that the bisection finds within the budget; None when the lowest is not. `peak_bytes` simulates
    a choice."""
    if peak_bytes(ladder[0]) > budget_bytes:
        return None
    fits, fails = 0, len(ladder)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if peak_bytes(ladder[middle]) <= budget_bytes:
            fits = middle
        else:
            fails = middle
    return ladder[fits]


def relax(problem: Problem, choice: Choice, peak_bytes: Callable[[Choice], int], least_ms: float) -> Choice:
    """`choice` with less to recompute at the same simulated peak, where its peak leaves room elsewhere in the step.

    One run after the other, the costliest first, becomes `save`, or else `selective`, wherever the peak stays. Does not
    depend on the user's budget, and goes no lower than `least_ms` of added time, that of the next rung: so added time
    still never rises as the budget grows.
    """
    most, promised = peak_bytes(choice), problem.peak_bytes(choice)  # more by the problem is not worth a simulation
    singles = {(o.first, o.action): i for i, o in enumerate(problem.options) if o.first == o.last}
    for costly in sorted(choice, key=lambda i: -problem.options[i].added_ms):
        for action in ("save", "selective"):
            option = problem.options[costly]
            stages = range(option.first, option.last + 1)
            changed = [singles.get((stage, action)) for stage in stages]
            if option.action != "full" or None in changed:
                continue
            tried = _with(problem, choice, costly, [i for i in changed if i is not None])
            if problem.added_ms(tried) < least_ms or problem.peak_bytes(tried) > promised:
                continue
            if peak_bytes(tried) <= most:
                choice = tried
                break
    return choice


def _with(problem: Problem, choice: Choice, out: int, into: list[int]) -> Choice:
    """`choice` with one option replaced by others for its stages."""
    return tuple(sorted({*choice, *into} - {out}, key=lambda i: problem.options[i].first))
