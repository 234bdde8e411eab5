"""A good choice without a solver: greedy steps to the budget, then back where that is still within it."""

from __future__ import annotations

from collections.abc import Iterator

from yolo_ckpt.planning.problem import Problem


def solve_greedy(problem: Problem, budget_bytes: int) -> tuple[int, ...] | None:
    """A choice with little added time whose peak is at most `budget_bytes`; None where no step leads there.

    Deterministic. From the fastest options it takes, again and again, the change that lowers the excess over the budget
    most for its time, and in the end takes back, dearest first, what is not needed.
    """
    choice = [min(range(len(u)), key=lambda i: (u[i].added_ms, u[i].kept_bytes)) for u in problem.units]
    while (excess := _excess(problem, choice, budget_bytes)) > 0:
        best = max(_changes(problem, choice, budget_bytes, excess), default=None)
        if best is None:
            return None
        choice[-best[1]] = -best[2]
    return tuple(_taken_back(problem, choice, budget_bytes))


def _excess(problem: Problem, choice: list[int], budget_bytes: int) -> float:
    """How far the places of the step are over the budget, in all: a change may help one of them only."""
    total, before = 0, 0
    room = budget_bytes - problem.fixed_bytes
    for option in problem.chosen(choice):
        total += max(before + max(option.forward_bytes, option.backward_bytes) - room, 0)
        before += option.kept_bytes
    return total + max(before + problem.loss_bytes - room, 0)


def _changes(problem: Problem, choice: list[int], budget_bytes: int, excess: float) -> Iterator[tuple[float, int, int]]:
    """(gain, -unit, -option) of every change that lowers the excess."""
    for unit, options in enumerate(problem.units):
        for option in range(len(options)):
            trial = [*choice[:unit], option, *choice[unit + 1 :]]
            gain = excess - _excess(problem, trial, budget_bytes)
            if gain > 0:
                time = options[option].added_ms - options[choice[unit]].added_ms
                yield gain / max(time, 1e-9), -unit, -option


def _taken_back(problem: Problem, choice: list[int], budget_bytes: int) -> list[int]:
    """The choice with every unit at the fastest option that the budget still allows, dearest units first, until nothing
    changes."""
    order = sorted(range(len(choice)), key=lambda u: -problem.units[u][choice[u]].added_ms)
    changed = True
    while changed:
        changed = False
        for unit in order:
            options = problem.units[unit]
            for option in sorted(range(len(options)), key=lambda o: options[o].added_ms):
                if options[option].added_ms >= options[choice[unit]].added_ms:
                    break
                trial = [*choice[:unit], option, *choice[unit + 1 :]]
                if problem.peak_bytes(trial) <= budget_bytes:
                    choice, changed = trial, True
                    break
    return choice
