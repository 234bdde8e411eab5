"""What the reports have to know of a simulated step."""

from __future__ import annotations

from typing import Protocol

from yolo_ckpt.planning.build import Step as Planned


class Step(Planned, Protocol):
    """A step with its peak, its parts in order, and what each stage keeps for its backward pass."""

    @property
    def peak_bytes(self) -> int: ...
    @property
    def kept_bytes(self) -> tuple[int, ...]: ...
