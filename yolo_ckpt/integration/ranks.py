"""One plan for every process of a distributed run.

The host starts each process anew and calls the first callback in one of them alone, so the others hear of the plan
when the model is built. By then it is wrapped for distributed training, which a plan does not mind: it changes neither
parameters nor the module tree.
"""

from __future__ import annotations

from typing import Any

from torch import distributed

from yolo_ckpt import attachment
from yolo_ckpt.integration.scoring import bounded
from yolo_ckpt.plan import Plan

RUN = "_yolo_ckpt_run"  # on the class of an extended trainer


def run_of(trainer: Any) -> Any:
    """The run of an extended trainer; None for any other."""
    return getattr(type(trainer), RUN, None)


def share_plan(trainer: Any) -> None:
    """Send the plan of the first process to the others, which put it on their models and validate in bounded memory.
    Every process has to call it."""
    if not distributed.is_available() or not distributed.is_initialized() or trainer.world_size < 2:
        return
    run = run_of(trainer)
    plan = None if run is None else run.plan
    message = [None if plan is None else plan.to_json()]
    distributed.broadcast_object_list(message, src=0)
    if plan is None and message[0] is not None:
        shared = Plan.from_json(message[0], "the plan of the first process")
        attachment.apply(trainer.model, shared)
        if shared.planned:
            trainer.validator.__class__ = bounded(trainer.validator)
