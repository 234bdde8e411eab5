"""The ways that `yolo-ckpt bench` compares: the host as it is, our modes, and what PyTorch offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from yolo_ckpt import attachment
from yolo_ckpt.errors import SettingsError
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.batches import made_batch
from yolo_ckpt.integration.budget import budget_bytes
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.forecast import AMP
from yolo_ckpt.measuring import WayResult, run_bench
from yolo_ckpt.measuring.bench import Way
from yolo_ckpt.measuring.peers import checkpoint_stages, compiled, saved_on_cpu
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.reporting.progress import Tell, untold
from yolo_ckpt.settings import Settings
from yolo_ckpt.stages import stages_of

STOCK = "stock"
PEERS = ("torch.utils.checkpoint", "save_on_cpu", "torch.compile")
MODES = ("selective", "full")
AUTO = "auto"
AUTO_SHARE = 0.5  # of stock's peak: the budget of `auto` where none is given
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
    tell: Tell = untold,
) -> list[WayResult]:
    """One training step of `model` (on the CPU) with its loss on `device`: stock, every plan of `plans`, and each of
    `peers`."""
    ways = [Way(name=STOCK, prepare=lambda m: m)]
    ways += [Way(name=name, prepare=_planned(plan)) for name, plan in plans.items()]
    ways += [_PEERS[name](torch.device(device).type == "cuda") for name in peers]
    data = made_batch(model, imgsz=imgsz, batch=batch, objects=objects, device=device)
    return run_bench(model, ways, data, amp=amp, rounds=rounds, tell=tell)


def run_request(
    model: nn.Module,
    flags: Mapping[str, str],
    *,
    ways: str,
    imgsz: int,
    batch: int,
    objects: int,
    rounds: int,
    device: str,
    amp: str,
    tell: Tell = untold,
) -> list[WayResult]:
    """What `yolo-ckpt bench` asks for; `ways` are names with commas between them, or empty for all. A plan file as
    `ckpt` among `flags` is one more way, under its path. `auto` plans for `ckpt_budget`, or for half of stock's peak.

    Raises:
        SettingsError: A way, a precision or a device is not known, or a flag is wrong.
    """
    modes = list(dict.fromkeys([*MODES, AUTO, *filter(None, [flags.get("ckpt")])]))
    names = [w.strip() for w in ways.split(",") if w.strip()] or [*modes, *PEERS]
    wrong = next((name for name in names if name not in (*modes, *PEERS)), None)
    if wrong is not None:
        raise SettingsError(f"ways={wrong} is not known; use some of {', '.join((*modes, *PEERS))}")
    if amp not in AMP:
        raise SettingsError(f"amp={amp} is not known; use one of {', '.join(AMP)}")
    usable = _device(device)
    settings = Settings.from_mapping({**flags, "ckpt": AUTO})
    conditions = Conditions(
        imgsz=imgsz, batch=batch, budget_bytes=0, stages=settings.ckpt_stages,
        attention=settings.ckpt_attention, objects=objects, amp=AMP[amp],
        device=torch.device(usable).type,
    )  # fmt: skip
    plans = {}
    for name in (n for n in modes if n in names):
        if name == AUTO:
            plans[name] = _auto(model, settings, conditions, torch.device(usable))
        else:
            plans[name] = make_plan(model, replace(settings, ckpt=name), imgsz=imgsz, batch=batch)
    return bench_model(
        model, plans, imgsz=imgsz, batch=batch, objects=objects, device=usable,
        peers=[name for name in names if name in PEERS], amp=AMP[amp], rounds=rounds, tell=tell,
    )  # fmt: skip


def _auto(model: nn.Module, settings: Settings, conditions: Conditions, device: torch.device) -> Plan:
    budget = budget_bytes(settings, device) if settings.ckpt_budget is not None else None
    if budget is None:
        budget = int(AUTO_SHARE * conditions.simulated(model).step(None).peak_bytes)
    return auto_plan(model, replace(conditions, budget_bytes=budget)).plan


def _device(name: str) -> str:
    """`0` as the host writes it, or a name of torch's.

    Raises:
        SettingsError: There is no such device here.
    """
    try:
        device = torch.device("cuda", int(name)) if name.isdecimal() else torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SettingsError(f"device={name} cannot be used ({reason}); use cpu, or the number of a GPU") from error
    return str(device)


def _planned(plan: Plan) -> Callable[[Any], Any]:
    return lambda model: attachment.apply(model, plan)


def _checkpointed(_: bool) -> Way:
    def prepare(model: Any) -> Any:
        checkpoint_stages(stages_of(model))
        return model

    return Way(name="torch.utils.checkpoint", prepare=prepare)


def _on_cpu(cuda: bool) -> Way:
    return Way(name="save_on_cpu", prepare=lambda model: saved_on_cpu(model, pinned=cuda), traceable=not cuda)


def _compiled(_: bool) -> Way:
    return Way(
        name="torch.compile",
        prepare=lambda model: compiled(model, memory_budget=COMPILE_BUDGET),
        traceable=False,
    )


_PEERS: dict[str, Callable[[bool], Way]] = dict(zip(PEERS, (_checkpointed, _on_cpu, _compiled), strict=True))
