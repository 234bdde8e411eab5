"""The best choice, by integer programming (HiGHS through scipy)."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from yolo_ckpt.planning.problem import Problem

MIB = float(1 << 20)  # numbers near one keep the solver's tolerances meaningful


def solve_exact(problem: Problem, budget_bytes: int) -> tuple[int, ...] | None:
    """The choice with the least added time whose peak is at most `budget_bytes`; None where there is none.

    Deterministic. One binary variable per option; one constraint per place in the step (see problem.py).
    """
    rows = _rows(problem)
    room = (budget_bytes - problem.fixed_bytes) / MIB
    cost = np.array([o.added_ms for unit in problem.units for o in unit])
    found = _milp(
        cost,
        constraints=[
            LinearConstraint(rows, ub=np.full(len(rows), room)),
            LinearConstraint(_one_each(problem), lb=1, ub=1),
        ],
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
    )
    return _choice(problem, found.x) if found.success else None


def smallest_peak(problem: Problem) -> tuple[int, ...]:
    """The choice with the smallest peak, and among those with the same one the fastest as the solver finds it."""
    rows = _rows(problem)
    count = rows.shape[1]
    with_peak = np.hstack([rows, np.full((len(rows), 1), -1.0)])
    each = np.hstack([_one_each(problem), np.zeros((len(problem.units), 1))])
    found = _milp(
        np.append(np.zeros(count), 1.0),
        constraints=[LinearConstraint(with_peak, ub=0), LinearConstraint(each, lb=1, ub=1)],
        integrality=np.append(np.ones(count), 0),
        bounds=Bounds(np.zeros(count + 1), np.append(np.ones(count), np.inf)),
    )
    return _choice(problem, found.x)


def _milp(*args: Any, **kwargs: Any) -> Any:
    """`milp` without the line that HiGHS prints by itself: standard output is for the answer."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        return milp(*args, **kwargs)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _rows(problem: Problem) -> np.ndarray:
    """MiB alive at each place of the step, beyond what is fixed, per option taken."""
    sizes = [len(unit) for unit in problem.units]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    kept = np.array([o.kept_bytes for unit in problem.units for o in unit]) / MIB
    rows = []
    for p, unit in enumerate(problem.units):
        row = np.zeros(starts[-1])
        row[: starts[p]] = kept[: starts[p]]
        row[starts[p] : starts[p + 1]] = [max(o.forward_bytes, o.backward_bytes) / MIB for o in unit]
        rows.append(row)
    loss = kept.copy()
    loss[: sizes[0]] += problem.loss_bytes / MIB  # exactly one option of the first unit is taken
    return np.array([*rows, loss])


def _one_each(problem: Problem) -> np.ndarray:
    sizes = [len(unit) for unit in problem.units]
    each = np.zeros((len(sizes), sum(sizes)))
    start = 0
    for i, size in enumerate(sizes):
        each[i, start : start + size] = 1
        start += size
    return each


def _choice(problem: Problem, x: np.ndarray) -> tuple[int, ...]:
    taken, start = [], 0
    for unit in problem.units:
        taken.append(int(np.argmax(x[start : start + len(unit)])))
        start += len(unit)
    return tuple(taken)
