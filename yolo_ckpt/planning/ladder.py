"""Choosing by simulation: the problem's peak is a model, the simulated one counts.

The rungs of a ladder are the best choices for budgets that divide the way from the smallest peak to the largest evenly.
They do not depend on the user's budget. The ladder is climbed by bisection: a rung is taken when its simulated peak is
within the budget. Two budgets walk the same way until a rung fits the larger one alone, and then the larger one goes on
above it: added time never rises as the budget grows.
"""

from __future__ import annotations

from collections.abc import Callable

from yolo_ckpt.planning.exact import smallest_peak, solve_exact
from yolo_ckpt.planning.problem import Problem

RUNGS = 64

Choice = tuple[int, ...]


def rungs(problem: Problem) -> list[Choice]:
    """Choices from the smallest peak to the least time, each once, added time falling."""
    lowest = smallest_peak(problem)
    low = problem.peak_bytes(lowest)
    fastest = tuple(min(range(len(u)), key=lambda i: u[i].added_ms) for u in problem.units)
    high = max(problem.peak_bytes(fastest), low)
    found: list[Choice] = [solve_exact(problem, low) or lowest]
    for step in range(1, RUNGS + 1):
        choice = solve_exact(problem, low + (high - low) * step // RUNGS)
        if choice is not None and problem.added_ms(choice) < problem.added_ms(found[-1]):
            found.append(choice)
    return found


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
