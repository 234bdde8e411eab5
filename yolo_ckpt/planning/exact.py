"""The best choice, by integer programming (HiGHS through scipy)."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from yolo_ckpt.planning.problem import Choice, Problem

MIB = float(1 << 20)  # numbers near one keep the solver's tolerances meaningful


def solve_exact(problem: Problem, budget_bytes: int) -> Choice | None:
    """The choice with the least added time whose peak is at most `budget_bytes`; None where there is none.

    Deterministic. One binary variable per option; one constraint per place in the step (see problem.py), and one
    per stage, which one option has to hold.
    """
    rows = _rows(problem)
    room = (budget_bytes - problem.fixed_bytes) / MIB
    cost = np.array([o.added_ms for o in problem.options])
    found = _milp(
        cost,
        constraints=[
            LinearConstraint(rows, ub=np.full(len(rows), room)),
            LinearConstraint(_covers(problem), lb=1, ub=1),
        ],
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
    )
    return _choice(found.x) if found.success else None


def smallest_peak(problem: Problem) -> Choice:
    """The choice with the smallest peak, and among those with the same one the fastest as the solver finds it."""
    rows = _rows(problem)
    count = rows.shape[1]
    with_peak = np.hstack([rows, np.full((len(rows), 1), -1.0)])
    each = np.hstack([_covers(problem), np.zeros((problem.stages, 1))])
    found = _milp(
        np.append(np.zeros(count), 1.0),
        constraints=[LinearConstraint(with_peak, ub=0), LinearConstraint(each, lb=1, ub=1)],
        integrality=np.append(np.ones(count), 0),
        bounds=Bounds(np.zeros(count + 1), np.append(np.ones(count), np.inf)),
    )
    return _choice(found.x[:-1])


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
    """MiB alive at each place of the step, beyond what is fixed, per option taken: at a stage what the options that end
    before it keep, and what the one that holds it needs; at the loss what all keep."""
    kept = np.array([o.kept_bytes for o in problem.options]) / MIB
    needed = np.array([o.needed_bytes for o in problem.options]) / MIB
    covers = _covers(problem)
    ended = np.array([[o.last < p for o in problem.options] for p in range(problem.stages)])
    first = np.array([o.first == 0 for o in problem.options])  # exactly one of these is taken
    return np.vstack([ended * kept + covers * needed, kept + first * problem.loss_bytes / MIB])


def _covers(problem: Problem) -> np.ndarray:
    """1 where an option holds a stage."""
    return np.array([[float(o.first <= p <= o.last) for o in problem.options] for p in range(problem.stages)])


def _choice(x: np.ndarray) -> Choice:
    return tuple(int(i) for i in np.flatnonzero(x > 0.5))
