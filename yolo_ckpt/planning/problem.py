"""The planning problem: what each action costs at each unit, and which peak a choice of actions gives.

A unit is a stage, or several that are recomputed together. The step passes the units forward, then the loss, then the
units backward. While it is at unit p, what the units before p keep is alive, and what p itself needs at most:

    peak = fixed + max over p of ( sum of kept over the units before p + needed at p )

once with `forward_bytes` and once with `backward_bytes`; at the loss all units keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, kw_only=True)
class Option:
    """One action at one unit.

    Attributes:
        action: `save`, `selective` or `full`.
        kept_bytes: What the unit leaves in memory between its forward and its backward pass.
        forward_bytes: The most that its forward pass has alive beyond what is kept before it.
        backward_bytes: The same for its backward pass.
        added_ms: Time that it adds to a step.
        recomputed_flops: Arithmetic of convolutions, products and attention that it adds.
    """

    action: str
    kept_bytes: int
    forward_bytes: int
    backward_bytes: int
    added_ms: float
    recomputed_flops: int = 0


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Which option to take at each unit.

    Attributes:
        fixed_bytes: Alive all the time.
        loss_bytes: The most that the loss has alive beyond what all units keep.
        units: The options of each unit, in the order of the forward pass.
    """

    fixed_bytes: int
    loss_bytes: int
    units: tuple[tuple[Option, ...], ...]

    def chosen(self, choice: Sequence[int]) -> list[Option]:
        """The options that `choice` (an index per unit) takes."""
        return [options[c] for options, c in zip(self.units, choice, strict=True)]

    def peak_bytes(self, choice: Sequence[int]) -> int:
        """The peak of the step under `choice`."""
        taken = self.chosen(choice)
        before = list(accumulate((o.kept_bytes for o in taken), initial=0))
        here = [max(o.forward_bytes, o.backward_bytes) for o in taken]
        at_units = [b + h for b, h in zip(before, here, strict=False)]
        return self.fixed_bytes + max(before[-1] + self.loss_bytes, *at_units)

    def added_ms(self, choice: Sequence[int]) -> float:
        """Time that `choice` adds to a step."""
        return sum(o.added_ms for o in self.chosen(choice))
