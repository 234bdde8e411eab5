"""The ways that `yolo-ckpt bench` compares: the host as it is, our modes, and what PyTorch offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from yolo_ckpt import attachment
from yolo_ckpt.integration.batches import made_batch
from yolo_ckpt.measuring import WayResult, run_bench
from yolo_ckpt.measuring.bench import Way
from yolo_ckpt.measuring.peers import checkpoint_stages, compiled, saved_on_cpu
from yolo_ckpt.plan import Plan
from yolo_ckpt.stages import stages_of

STOCK = "stock"
PEERS = ("torch.utils.checkpoint", "save_on_cpu", "torch.compile")
COMPILE_BUDGET = 0.5


def bench_model(
    model: nn.Module,
    plans: dict[str, Plan],
    *,
    imgsz: int,
    batch: int,
    objects: int,
    device: str,
    peers: Sequence[str] = PEERS,
    amp: torch.dtype | None = None,
    rounds: int = 5,
) -> list[WayResult]:
    """One training step of `model` (on the CPU) with its loss on `device`: stock, every plan of `plans`, and each of
    `peers`."""
    ways = [Way(name=STOCK, prepare=lambda m: m)]
    ways += [Way(name=name, prepare=_planned(plan)) for name, plan in plans.items()]
    ways += [_PEERS[name](torch.device(device).type == "cuda") for name in peers]
    data = made_batch(model, imgsz=imgsz, batch=batch, objects=objects, device=device)
    return run_bench(model, ways, data, amp=amp, rounds=rounds)


def _planned(plan: Plan) -> Callable[[Any], Any]:
    return lambda model: attachment.apply(model, plan)


def _checkpointed(_: bool) -> Way:
    def prepare(model: Any) -> Any:
        checkpoint_stages(stages_of(model))
        return model

    return Way(name="torch.utils.checkpoint", prepare=prepare)


def _on_cpu(cuda: bool) -> Way:
    return Way(name="save_on_cpu", prepare=lambda model: saved_on_cpu(model, pinned=cuda))


def _compiled(_: bool) -> Way:
    return Way(
        name="torch.compile",
        prepare=lambda model: compiled(model, memory_budget=COMPILE_BUDGET),
        traceable=False,
    )


_PEERS: dict[str, Callable[[bool], Way]] = dict(zip(PEERS, (_checkpointed, _on_cpu, _compiled), strict=True))
