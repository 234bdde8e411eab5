"""A good choice without a solver: dynamic programming over what the units so far keep.

Only the sum of what was kept so far decides what a later unit may do. So of all ways through the first units with the
same sum only the fastest matters, and none that keeps more and is slower. Where more than `WIDTH` of them remain, the
fastest in each of `WIDTH` ranges of sums goes on: that, and nothing else, can miss the best choice.
"""

from __future__ import annotations

from typing import NamedTuple

from yolo_ckpt.planning.problem import Problem

WIDTH = 1000


class _Way(NamedTuple):
    """Options for the first units."""

    kept_bytes: int
    added_ms: float
    choice: tuple[int, ...]


def solve_frontier(problem: Problem, budget_bytes: int) -> tuple[int, ...] | None:
    """A choice with about the least added time whose peak is at most `budget_bytes`; None where there is none.
    Deterministic."""
    room = budget_bytes - problem.fixed_bytes
    ways = [_Way(0, 0.0, ())]
    for options in problem.units:
        longer = [
            _Way(way.kept_bytes + o.kept_bytes, way.added_ms + o.added_ms, (*way.choice, i))
            for way in ways
            for i, o in enumerate(options)
            if way.kept_bytes + max(o.forward_bytes, o.backward_bytes) <= room
        ]
        ways = _thinned(_undominated(longer))
    fitting = [way for way in ways if way.kept_bytes + problem.loss_bytes <= room]
    return min(fitting, key=_speed).choice if fitting else None


def _speed(way: _Way) -> tuple[float, int, tuple[int, ...]]:
    return way.added_ms, way.kept_bytes, way.choice


def _undominated(ways: list[_Way]) -> list[_Way]:
    """Those that no other one beats in both respects, from the least kept to the least time."""
    found: list[_Way] = []
    for way in sorted(ways):
        if not found or way.added_ms < found[-1].added_ms:
            found.append(way)
    return found


def _thinned(ways: list[_Way]) -> list[_Way]:
    """At most about `WIDTH` of them; the one that keeps least is among them."""
    if len(ways) <= WIDTH:
        return ways
    low, span = ways[0].kept_bytes, ways[-1].kept_bytes - ways[0].kept_bytes + 1
    fastest = {(way.kept_bytes - low) * WIDTH // span: way for way in ways}  # later ones are faster
    return _undominated([ways[0], *fastest.values()])
