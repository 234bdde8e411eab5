"""Which tensors are alive at the peak of a step, where each came from, and what for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from yolo_ckpt.measuring.live import LiveBytes


@dataclass(frozen=True, kw_only=True)
class LiveTensor:
    """A storage that is alive at the peak.

    Attributes:
        operator: What made it, for example `convolution`; `given` for what was there before the step.
        phase: `forward`, `loss` or `backward`: when it was made; `before` for what was there.
        stage: Index of the stage in whose part of the phase it was made; -1 outside of all stages.
        shape: Of the tensor that was seen first.
        dtype: Its element type, for example `float32`.
        nbytes: Of the storage.
    """

    operator: str
    phase: str
    stage: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int


class Ledger(LiveBytes):
    """Live bytes, with every birth and death written down in order.

    Attributes:
        place: Phase and stage that are running.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = ("before", -1)
        self._operator = "given"
        self._events: list[tuple[int, LiveTensor | None]] = []  # of a storage: what it is at birth, None at death
        self._until = 0  # events up to the peak

    def mark(self, phase: str, stage: int) -> None:
        """Another part of the step begins."""
        self.place = (phase, stage)

    def at_peak(self) -> tuple[LiveTensor, ...]:
        """What was alive at the peak, the largest first."""
        alive: dict[int, LiveTensor] = {}
        for key, made in self._events[: self._until]:
            if made is None:
                alive.pop(key, None)
            else:
                alive[key] = made
        return tuple(sorted(alive.values(), key=lambda t: -t.nbytes))

    def _see(self, tensor: Tensor) -> None:
        before, key = self.peak_bytes, tensor.untyped_storage()._cdata
        if key not in self._sizes:
            phase, stage = self.place
            made = LiveTensor(
                operator=self._operator, phase=phase, stage=stage, shape=tuple(tensor.shape),
                dtype=str(tensor.dtype).removeprefix("torch."), nbytes=tensor.untyped_storage().nbytes(),
            )  # fmt: skip
            self._events.append((key, made))
        super()._see(tensor)
        if self.peak_bytes > before:
            self._until = len(self._events)

    def _freed(self, key: int) -> None:
        self._events.append((key, None))
        super()._freed(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._operator = func._schema.name.removeprefix("aten::")
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self._operator = "given"
