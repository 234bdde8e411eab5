"""Trainings to compare, with and without a plan."""

from __future__ import annotations

from typing import Any

import torch

import yolo_ckpt


def train(arguments: dict[str, Any], ckpt: str, model: str = "yolo26n.yaml", **settings: Any) -> dict[str, Any]:
    """One run; its losses, its final tensors and random state, and the trainer."""
    import ultralytics

    yolo = (ultralytics.RTDETR if "rtdetr" in model else ultralytics.YOLO)(model)
    if ckpt != "stock":
        yolo_ckpt.attach(yolo, ckpt=ckpt, **settings)
    losses: list[torch.Tensor] = []
    end: dict[str, Any] = {}

    def epoch_end(trainer: Any) -> None:
        state = {f"model.{k}": v for k, v in trainer.model.state_dict().items()}
        state |= {f"ema.{k}": v for k, v in trainer.ema.ema.state_dict().items()}
        end.update({k: v.clone() for k, v in state.items()}, random=torch.get_rng_state(), trainer=trainer)

    yolo.add_callback("on_train_batch_end", lambda t: losses.append(t.loss.detach().clone()))
    yolo.add_callback("on_train_epoch_end", epoch_end)
    yolo.train(**arguments)
    return {**end, "losses": torch.stack(losses), "yolo": yolo}


def unequal(stock: dict[str, Any], planned: dict[str, Any]) -> list[str]:
    """Names of the tensors that differ; both runs have to have the same ones."""
    assert planned.keys() == stock.keys()
    return [k for k, v in stock.items() if isinstance(v, torch.Tensor) and not torch.equal(v, planned[k])]
