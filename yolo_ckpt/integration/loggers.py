"""The report as an artefact of the run in the loggers that are on: MLflow, Weights & Biases, TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yolo_ckpt.integration import compat


def log_report(trainer: Any, files: Sequence[Path]) -> None:
    """Hand the report's files to every logger that follows this run. A logger that fails ends no training: it gets one
    warning."""
    for name, hand_over in (("MLflow", _to_mlflow), ("W&B", _to_wandb), ("TensorBoard", _to_tensorboard)):
        try:
            hand_over(trainer, files)
        except Exception as error:  # whatever a third party's client raises
            compat.log(f"{name} did not take the report ({type(error).__name__}: {error})", warning=True)


def _to_mlflow(trainer: Any, files: Sequence[Path]) -> None:
    if compat.follows_mlflow(trainer):
        for file in files:
            sys.modules["mlflow"].log_artifact(str(file))


def _to_wandb(_: Any, files: Sequence[Path]) -> None:
    wandb = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if wandb is None or run is None:
        return
    artifact = wandb.Artifact(type="report", name=f"run_{run.id}_ckpt_report")
    for file in files:
        artifact.add_file(str(file))
    run.log_artifact(artifact)


def _to_tensorboard(_: Any, files: Sequence[Path]) -> None:
    writer = compat.tensorboard_writer()
    for file in files:
        if writer and file.suffix == ".md":
            writer.add_text("ckpt_report", file.read_text(encoding="utf-8"))
