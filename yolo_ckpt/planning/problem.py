"""The planning problem: what each action costs at each run of stages, and which peak a choice of actions gives.

A choice divides the stages into runs, each with an action: several stages that are recomputed together are one run.
The step passes the runs forward, then the loss, then the runs backward. While it is at a run, what the runs before it
keep is alive, and what the run itself needs at most:

    peak = fixed + max over the runs of ( sum of kept over the runs before + needed at the run )

once with `forward_bytes` and once with `backward_bytes`; at the loss all runs keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

Choice = tuple[int, ...]  # options, by index, in the order of the forward pass


@dataclass(frozen=True, kw_only=True)
class Option:
    """One action for one run of stages.

    Attributes:
        first: The first stage of the run.
        last: The last one.
        action: `save`, `selective` or `full`.
        kept_bytes: What the run leaves in memory between its forward and its backward pass.
        forward_bytes: The most that its forward pass has alive beyond what is kept before it.
        backward_bytes: The same for its backward pass.
        added_ms: Time that it adds to a step.
    """

    first: int
    last: int
    action: str
    kept_bytes: int
    forward_bytes: int
    backward_bytes: int
    added_ms: float

    @property
    def needed_bytes(self) -> int:
        """The most that either pass has alive beyond what is kept before it."""
        return max(self.forward_bytes, self.backward_bytes)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Which options to take, so that each stage is in one of them.

    Attributes:
        fixed_bytes: Alive all the time.
        loss_bytes: The most that the loss has alive beyond what all runs keep.
        options: All there are, by their first stage.
    """

    fixed_bytes: int
    loss_bytes: int
    options: tuple[Option, ...]

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return 1 + max(o.last for o in self.options)

    def chosen(self, choice: Sequence[int]) -> list[Option]:
        """The options of `choice`."""
        return [self.options[i] for i in choice]

    def peak_bytes(self, choice: Sequence[int]) -> int:
        """The peak of the step under `choice`."""
        taken = self.chosen(choice)
        before = list(accumulate((o.kept_bytes for o in taken), initial=0))
        at_runs = [b + o.needed_bytes for b, o in zip(before, taken, strict=False)]
        return self.fixed_bytes + max(before[-1] + self.loss_bytes, *at_runs)

    def added_ms(self, choice: Sequence[int]) -> float:
        """Time that `choice` adds to a step."""
        return sum(o.added_ms for o in self.chosen(choice))
