"""Which images train and which validate."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Sequence


def splits(groups: Sequence[Hashable], given: Sequence[str], share: float, seed: int) -> list[str]:
    """The split of each file: what is given stays. Where nothing is given to `val`, it is drawn from all but `test`.

    Args:
        groups: What has to stay together; equal ones do, as far as they are drawn.
        given: The split that a folder or a label says, empty where none does.
        share: Of the files that go to `val`, where nothing says what validates.
        seed: Of the draw.
    """
    if "val" in given:
        return [split or "train" for split in given]
    drawn = iter(_drawn([g for g, s in zip(groups, given, strict=True) if s != "test"], share, seed))
    return ["test" if split == "test" else next(drawn) for split in given]


def _drawn(groups: Sequence[Hashable], share: float, seed: int) -> list[str]:
    """Whole groups are drawn until `val` has its share, one at least, and one at least is left to train."""
    sizes = Counter(groups)
    order = list(sizes)  # as they come, so that the draw depends on nothing but the files and the seed
    random.Random(seed).shuffle(order)
    wanted, held = share * len(groups), 0
    validating: set[Hashable] = set()
    for group in order[:-1] if share else []:
        if validating and abs(held + sizes[group] - wanted) >= abs(held - wanted):
            continue
        validating.add(group)
        held += sizes[group]
    return ["val" if group in validating else "train" for group in groups]


def shared(groups: Sequence[Hashable], given: Sequence[str]) -> int:
    """How many groups are in more than one of the splits that were given."""
    seen: dict[Hashable, set[str]] = {}
    for group, split in zip(groups, given, strict=True):
        seen.setdefault(group, set()).add(split)
    return sum(len(found) > 1 for found in seen.values())
