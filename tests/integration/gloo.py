"""The host's distributed training on two CPU processes: its own launcher, with gloo instead of one GPU each."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import nn
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.utils import DEFAULT_CFG, LOCAL_RANK, RANK

from yolo_ckpt.attachment import is_planned
from yolo_ckpt.integration.scoring import BoundedDetections

DistributedDataParallel = nn.parallel.DistributedDataParallel


class GlooTrainer(DetectionTrainer):
    """Two processes on the CPU. Where the host would count GPUs, this one answers for it."""

    def __init__(self, cfg: Any = DEFAULT_CFG, overrides: Any = None, _callbacks: Any = None) -> None:
        launches = LOCAL_RANK == -1  # the host runs no callback in the process that launches
        super().__init__(cfg, overrides, defaultdict(list, none=[]) if launches else _callbacks)
        self.world_size = 2
        if launches:
            self.callbacks, self.ddp = _callbacks, True

    def _setup_ddp(self) -> None:
        torch.distributed.init_process_group("gloo", rank=RANK, world_size=2)
        nn.parallel.DistributedDataParallel = lambda model, device_ids, **given: DistributedDataParallel(model, **given)

    def final_eval(self) -> None:
        """Nothing: in a distributed run the host's validator asks for the GPU of its process."""


class Saved:
    """A callback that writes down what each process ends with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trainer: Any) -> None:
        state = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        state |= {f"gradient of {k}": p.grad.clone() for k, p in trainer.model.named_parameters() if p.grad is not None}
        end = {
            "state": state,
            "planned": is_planned(trainer.model),
            "bounded": isinstance(trainer.validator, BoundedDetections),
            "transforms": [repr(t) for t in _albumentations(trainer.train_loader.dataset)],
            "flipud": trainer.args.flipud,
        }
        torch.save(end, self.folder / f"{RANK}.pt")


def _albumentations(data: Any) -> list[Any]:
    """The Albumentations transforms of the host's data set."""
    host = next(t for t in data.transforms.transforms if type(t).__name__ == "Albumentations")
    return list(host.transform.transforms)
