"""Live bytes of a training step along its way: forward through the stages, the loss, and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn
from torch.utils.flop_counter import flop_registry

from yolo_ckpt.measuring.live import LiveBytes, tensors_in
from yolo_ckpt.measuring.watch import watched

FORWARD, LOSS, BACKWARD = "forward", "loss", "backward"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of the step.

    Attributes:
        phase: `forward`, `loss` (the loss's own forward pass) or `backward`; backward begins with the loss's.
        stage: Index of the stage; that after the last is the loss.
        start_bytes: Alive when it begins.
        peak_bytes: The most that was alive at once in it.
        flops: Operations of the convolutions, matrix products and attention in it.
    """

    phase: str
    stage: int
    start_bytes: int
    peak_bytes: int
    flops: int


class Counted(LiveBytes):
    """Live bytes, and how much was computed.

    Attributes:
        flops: Operations of convolutions, matrix products and attention since the last `take_flops`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def take_flops(self) -> int:
        """The operations since the last call."""
        flops, self.flops = self.flops, 0
        return flops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=out)
        return out


class _Marks:
    """Cuts the step into windows."""

    def __init__(self, live: Counted) -> None:
        self.live = live
        self.windows: list[Window] = []
        self._open: tuple[str, int, int] | None = None

    def mark(self, phase: str, stage: int) -> None:
        """End the open window and begin another."""
        if self._open is not None:
            before, index, start = self._open
            peak = self.live.take_window_peak()
            self.windows.append(
                Window(phase=before, stage=index, start_bytes=start, peak_bytes=peak, flops=self.live.take_flops())
            )
        self.live.take_window_peak()
        self._open = (phase, stage, self.live.current_bytes)


def traced_step(live: Counted, stages: Sequence[nn.Module], loss: Callable[[], Tensor]) -> list[Window]:
    """The windows of one step: `loss()` runs forward and returns what backward starts from. `live` has to be on."""
    marks = _Marks(live)
    with marked(stages, marks):
        total = loss()
        marks.mark(BACKWARD, len(stages))
        total.backward()
        del total
        marks.mark("end", 0)
    return marks.windows


class Marked(Protocol):
    """What is told where the parts of a step begin."""

    def mark(self, phase: str, stage: int) -> None:
        """`phase` of `stage` begins; the stage after the last is the loss."""
        ...


def marked(stages: Sequence[nn.Module], marks: Marked) -> AbstractContextManager[None]:
    """Inside, mark where the forward pass of each stage begins, and where a gradient of its output arrives first."""
    arrived: set[int] = set()

    def before(index: int) -> None:
        marks.mark(FORWARD, index)

    def after(index: int, out: Any) -> None:
        if index == len(stages) - 1:
            marks.mark(LOSS, len(stages))
        for tensor in tensors_in(out):
            if tensor.requires_grad:
                tensor.register_hook(lambda _: arrive(index))

    def arrive(index: int) -> None:
        if index not in arrived:
            arrived.add(index)
            marks.mark(BACKWARD, index)

    return watched(stages, before, after)
