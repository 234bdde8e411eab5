"""What each stage's forward pass computes and moves: floating-point operations and bytes, simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from yolo_ckpt.measuring.live import tensors_in
from yolo_ckpt.measuring.watch import watched


@dataclass(kw_only=True)
class Work:
    """The forward pass of one stage.

    Attributes:
        flops: Of convolutions, matrix products and attention.
        dear_bytes: What these read and write.
        cheap_bytes: What all other operators read and write.
        dear_calls: How many of the first kind there are.
        cheap_calls: How many of the others.
    """

    flops: int = 0
    dear_bytes: int = 0
    cheap_bytes: int = 0
    dear_calls: int = 0
    cheap_calls: int = 0


class _Counter(TorchDispatchMode):
    """Counts into `work`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work = Work()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns):
            return out  # a view moves nothing
        moved = sum(t.nbytes for t in (*tensors_in((args, kwargs)), *tensors_in(out)))
        flops = flop_registry.get(func._overloadpacket)
        if flops is None:
            self.work.cheap_bytes += moved
            self.work.cheap_calls += 1
        else:
            self.work.flops += flops(*args, **kwargs, out_val=out)
            self.work.dear_bytes += moved
            self.work.dear_calls += 1
        return out


def stage_work(stages: Sequence[nn.Module], forward: Callable[[], Any]) -> list[Work]:
    """The work of every stage in `forward()`, which runs the model."""
    found = [Work() for _ in stages]
    counter = _Counter()

    def enter(index: int) -> None:
        counter.work = found[index]

    with watched(stages, enter), counter:
        forward()
    return found
