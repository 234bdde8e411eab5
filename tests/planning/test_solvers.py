"""The solvers against trying everything."""

from __future__ import annotations

import functools
import itertools
import os

import numpy as np
import pytest

from yolo_ckpt.planning import exact, heuristic
from yolo_ckpt.planning.exact import smallest_peak, solve_exact
from yolo_ckpt.planning.heuristic import solve_frontier
from yolo_ckpt.planning.ladder import climb, relax, rungs, with_lowest
from yolo_ckpt.planning.problem import Option, Problem

MIB = 1 << 20


ACTIONS = ("save", "selective", "full")


def made_problem(seed: int, joins: int = 3) -> Problem:
    """Up to ten stages with three options each, the more time one adds, the less it keeps; and up to three runs of two
    or three stages that are recomputed together."""
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(2, 11))
    options = [o for i in range(stages) for o in _options_of(i, i, rng)]
    for _ in range(rng.integers(0, joins + 1)):
        first = int(rng.integers(0, stages - 1))
        last = min(first + int(rng.integers(1, 3)), stages - 1)
        if all((o.first, o.last) != (first, last) for o in options):
            options.append(_options_of(first, last, rng)[-1])
    options.sort(key=lambda o: (o.first, o.last, ACTIONS.index(o.action)))
    return Problem(fixed_bytes=50 * MIB, loss_bytes=int(rng.integers(0, 200)) * MIB, options=tuple(options))


def _options_of(first: int, last: int, rng: np.random.Generator) -> list[Option]:
    kept = np.sort(rng.integers(1, 200, 3))[::-1]
    added = np.concatenate([[0.0], np.sort(rng.random(2)) * 10 * (1 + last - first)])
    needed = kept + rng.integers(0, 150, 3)
    return [
        Option(
            first=first, last=last, action=action, kept_bytes=int(k) * MIB, forward_bytes=int(k) * MIB,
            backward_bytes=int(n) * MIB, added_ms=float(a),
        )
        for action, k, n, a in zip(ACTIONS, kept, needed, added, strict=True)
    ]  # fmt: skip


def divisions(problem: Problem, first: int = 0) -> list[list[list[int]]]:
    """Every way to divide the stages from `first` on into runs: the options of each run."""
    if first == problem.stages:
        return [[]]
    found = []
    for last in sorted({o.last for o in problem.options if o.first == first}):
        here = [i for i, o in enumerate(problem.options) if (o.first, o.last) == (first, last)]
        found += [[here, *rest] for rest in divisions(problem, last + 1)]
    return found


@functools.cache
def everything(problem: Problem) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Every choice with its peak and added time."""
    choices: list[tuple[int, ...]] = []
    peaks, times = [], []
    for division in divisions(problem):
        rows = np.array(list(itertools.product(*division)))
        kept, here, added = (
            np.array([getattr(o, value) for o in problem.options])[rows]
            for value in ("kept_bytes", "needed_bytes", "added_ms")
        )
        before = np.cumsum(kept, 1) - kept
        at_loss = kept.sum(1) + problem.loss_bytes
        peaks.append(np.maximum((before + here).max(1), at_loss) + problem.fixed_bytes)
        times.append(added.sum(1))
        choices += map(tuple, rows.tolist())
    return choices, np.concatenate(peaks), np.concatenate(times)


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_exact_is_the_best_there_is(first: int) -> None:
    rng = np.random.default_rng(first)
    for seed in range(first, first + 25):
        problem = made_problem(seed)
        _, peaks, added = everything(problem)
        budget = int(peaks.min() + rng.random() * (peaks.max() - peaks.min()))
        choice = solve_exact(problem, budget)
        assert choice is not None
        assert problem.peak_bytes(choice) <= budget
        assert problem.added_ms(choice) == pytest.approx(added[peaks <= budget].min(), abs=1e-9)


def test_the_heuristic_keeps_the_budget_and_is_near_the_best() -> None:
    for seed in range(200):
        problem = made_problem(seed)
        _, peaks, added = everything(problem)
        budget = int(peaks.min() + np.random.default_rng(seed).random() * (peaks.max() - peaks.min()))
        choice = solve_frontier(problem, budget)
        assert choice is not None
        assert problem.peak_bytes(choice) <= budget
        best = added[peaks <= budget].min()
        assert problem.added_ms(choice) <= 1.03 * best + 1e-9


def test_the_heuristic_stays_near_the_best_when_it_has_to_thin_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristic, "WIDTH", 100)
    for seed in range(50):
        problem = made_problem(seed)
        budget = problem.peak_bytes(smallest_peak(problem)) * 5 // 4
        best, near = solve_exact(problem, budget), solve_frontier(problem, budget)
        assert best is not None
        assert near is not None
        assert problem.peak_bytes(near) <= budget
        assert problem.added_ms(near) <= 1.03 * problem.added_ms(best) + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_peak_is_the_smallest(seed: int) -> None:
    problem = made_problem(seed)
    _, peaks, _ = everything(problem)
    assert problem.peak_bytes(smallest_peak(problem)) == peaks.min()
    assert solve_exact(problem, int(peaks.min()) - MIB) is None
    assert solve_frontier(problem, int(peaks.min()) - MIB) is None


def test_peaks_are_those_of_the_definition() -> None:
    problem = made_problem(3)
    choices, peaks, added = everything(problem)
    for i in range(0, len(choices), 997):
        assert problem.peak_bytes(choices[i]) == peaks[i]
        assert problem.added_ms(choices[i]) == pytest.approx(added[i])


@pytest.mark.parametrize("seed", range(10))
def test_more_budget_never_adds_time(seed: int) -> None:
    """Also where the simulated peak is not what the problem says."""
    problem = made_problem(seed)
    noise = np.random.default_rng(seed)
    off = {}

    def simulated(choice: tuple[int, ...]) -> int:
        return int(problem.peak_bytes(choice) * off.setdefault(choice, 1 + 0.2 * noise.random()))

    ladder = rungs(problem)
    added = [problem.added_ms(c) for c in ladder]
    assert added == sorted(added, reverse=True)
    low, high = simulated(ladder[0]), problem.peak_bytes(ladder[-1]) * 1.2
    found = [climb(ladder, simulated, int(low + (high - low) * i / 40)) for i in range(41)]
    times = [problem.added_ms(c) for c in found if c is not None]
    assert len(times) == 41
    assert times == sorted(times, reverse=True)
    assert all(simulated(c) <= low + (high - low) * i / 40 for i, c in enumerate(found) if c is not None)
    assert climb(ladder, simulated, low - 1) is None


@pytest.mark.parametrize("seed", range(10))
def test_time_falls_from_the_lowest_rung_on(seed: int) -> None:
    """Also where the choice that is put below is faster than what the problem takes to be lowest."""
    problem = made_problem(seed)
    ladder = rungs(problem)
    lowest = ladder[len(ladder) // 2]
    added = [problem.added_ms(c) for c in with_lowest(problem, ladder, lowest)]
    assert added == sorted(set(added), reverse=True)
    assert len(added) == len(ladder) - len(ladder) // 2


def test_what_the_peak_leaves_room_for_is_not_recomputed() -> None:
    """The first stage has the peak, in its backward pass: the second need not be recomputed, the third must be."""

    def option(stage: int, action: str, kept: int, needed: int, added: float) -> Option:
        return Option(
            first=stage, last=stage, action=action, kept_bytes=kept, forward_bytes=kept, backward_bytes=needed,
            added_ms=added,
        )  # fmt: skip

    options = (
        option(0, "full", 1, 10, 5.0),
        option(1, "full", 1, 2, 4.0), option(1, "save", 6, 6, 0.0),
        option(2, "full", 1, 2, 3.0), option(2, "save", 9, 9, 0.0), option(2, "selective", 2, 2, 1.0),
    )  # fmt: skip
    problem = Problem(fixed_bytes=0, loss_bytes=0, options=options)
    full = (0, 1, 3)
    assert problem.peak_bytes(full) == 10
    assert relax(problem, full, problem.peak_bytes, 0.0) == (0, 2, 5)
    assert relax(problem, full, problem.peak_bytes, 8.0) == (0, 2, 3)  # the next rung takes that time
    assert relax(problem, full, lambda c: problem.peak_bytes(c) + (2 in c), 0.0) == (
        0,
        1,
        5,
    )  # what is simulated counts


def test_what_the_solver_prints_by_itself_is_not_seen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS writes to the descriptor, past Python."""
    solve = exact.milp

    def noisy(*args: object, **kwargs: object) -> object:
        os.write(1, b"HighsMipSolverData::transformNewIntegerFeasibleSolution\n")
        return solve(*args, **kwargs)

    monkeypatch.setattr(exact, "milp", noisy)
    problem = made_problem(0)
    assert solve_exact(problem, problem.peak_bytes(smallest_peak(problem))) is not None
    print("the answer")
    assert capfd.readouterr().out == "the answer\n"
