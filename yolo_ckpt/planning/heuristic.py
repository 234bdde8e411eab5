"""A good choice without a solver: dynamic programming over what the stages so far keep.

Only the sum of what was kept so far decides what a later run of stages may do. So of all ways through the first stages
with the same sum only the fastest matters, and none that keeps more and is slower. Where more than `WIDTH` of them
remain, the fastest in each of `WIDTH` ranges of sums goes on: that, and nothing else, can miss the best choice.
"""

from __future__ import annotations

from typing import NamedTuple

from yolo_ckpt.planning.problem import Choice, Problem

WIDTH = 1000


class _Way(NamedTuple):
    """Options for the first stages."""

    kept_bytes: int
    added_ms: float
    choice: Choice


def solve_frontier(problem: Problem, budget_bytes: int) -> Choice | None:
    """A choice with about the least added time whose peak is at most `budget_bytes`; None where there is none.
    Deterministic."""
    room = budget_bytes - problem.fixed_bytes
    arrived: list[list[_Way]] = [[] for _ in range(problem.stages + 1)]
    arrived[0] = [_Way(0, 0.0, ())]
    for i, option in enumerate(problem.options):  # by their first stage: what arrives there is complete
        if i == 0 or problem.options[i - 1].first != option.first:
            arrived[option.first] = _thinned(_undominated(arrived[option.first]))
        arrived[option.last + 1] += [
            _Way(way.kept_bytes + option.kept_bytes, way.added_ms + option.added_ms, (*way.choice, i))
            for way in arrived[option.first]
            if way.kept_bytes + option.needed_bytes <= room
        ]
    fitting = [way for way in arrived[-1] if way.kept_bytes + problem.loss_bytes <= room]
    return min(fitting, key=_speed).choice if fitting else None


def _speed(way: _Way) -> tuple[float, int, Choice]:
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
