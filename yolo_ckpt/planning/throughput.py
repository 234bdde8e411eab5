"""The batch with the highest images per second within a budget: recomputing makes room for more images in a step, and
more images spread what a step costs whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yolo_ckpt.planning.heuristic import solve_frontier
from yolo_ckpt.planning.problem import Problem

AS_GOOD = 0.995  # of the highest rate: times are no more exact than that, and the larger batch is taken
EVERY = 32  # batches up to this one are all looked at, above it one in about twenty


def best_batch(
    problem_at: Callable[[int], Problem], step_ms_at: Callable[[int], float], budget_bytes: int, most: int
) -> int | None:
    """The batch, `most` at most, whose best plan within `budget_bytes` trains the most images per second; None where
    not one image fits. `problem_at` and `step_ms_at` give a batch's planning problem and its step without a plan."""
    rates: dict[int, float] = {}
    for batch in _candidates(most):
        problem = problem_at(batch)
        choice = solve_frontier(problem, budget_bytes)
        if choice is None:
            break
        rates[batch] = batch / (step_ms_at(batch) + problem.added_ms(choice))
    highest = max(rates.values(), default=0.0)
    return max((batch for batch, rate in rates.items() if rate >= AS_GOOD * highest), default=None)


def _candidates(most: int) -> Iterator[int]:
    batch = 1
    while batch < most:
        yield batch
        batch += max(batch // (EVERY // 2), 1) if batch >= EVERY else 1
    yield most
