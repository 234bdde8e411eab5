"""The trainer seam: a subclass of the trainer's own class, put on the one object that is about to train."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration import compat
from yolo_ckpt.integration.follow import Follower
from yolo_ckpt.integration.randomness import random_state_kept
from yolo_ckpt.integration.ranks import RUN
from yolo_ckpt.integration.run import Run

T = TypeVar("T")


def extend(trainer: Any, run: Run) -> None:
    """Make `trainer` put the plan on its model before AutoBatch and the loaders, and report at its end.

    Raises:
        RequestError: This version of the host lacks what the plugin hooks into, or trains quantised.
    """
    import yolo_ckpt

    missing = compat.missing_seams(trainer)
    if missing:
        _remove_if_fresh(Path(trainer.save_dir))
        raise RequestError(
            f"ultralytics {compat.host_version()} has no {', '.join(missing)} in its trainer, which yolo-ckpt "
            f"{yolo_ckpt.__version__} needs; update yolo-ckpt, or train stock with ckpt=off"
        )
    if compat.trains_quantized(trainer.args):
        _remove_if_fresh(Path(trainer.save_dir))
        raise RequestError(
            f"quantize={trainer.args.quantize} trains through fake-quantised modules, which ckpt={run.settings.ckpt} "
            f"cannot recompute; train with ckpt=off, or without quantize"
        )
    if getattr(trainer.args, "compile", False):
        run.compiler.set(run.settings)
    base = type(trainer)

    def auto_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        _prepare(self, run)
        batch = refused(self, run.choose_batch)
        return base.auto_batch(self, *args, **kwargs) if batch is None else batch

    def _build_train_pipeline(self: Any, *args: Any, **kwargs: Any) -> Any:
        _prepare(self, run)
        refused(self, lambda trainer: run.preflight.tell(trainer, planned=bool(run.plan and run.plan.planned)))
        built = base._build_train_pipeline(self, *args, **kwargs)
        refused(self, run.prepare_for_budget)
        return built

    def preprocess_batch(self: Any, batch: Any) -> Any:
        return run.recovery.preprocess(lambda given: base.preprocess_batch(self, given), batch)

    def optimizer_step(self: Any) -> None:
        run.recovery.optimizer_step(lambda: base.optimizer_step(self))

    def get_dataloader(self: Any, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train") -> Any:
        build = functools.partial(base.get_dataloader, self)
        if mode != "val" or run.plan is None or not run.plan.planned:
            return build(dataset_path, batch_size=batch_size, rank=rank, mode=mode)
        return run.validation.loader(build, dataset_path, batch_size, rank, compat.batch_per_device(self))

    def build_dataset(self: Any, *given: Any, **named: Any) -> Any:
        return base.build_dataset(self, *run.validation.grouped(given), **named)

    seams = (auto_batch, _build_train_pipeline, preprocess_batch, optimizer_step, get_dataloader, build_dataset)
    body = {**{seam.__name__: seam for seam in seams}, RUN: run}
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    trainer.__class__ = type(base.__name__, (base,), {**named, **body})
    for event, callback in Follower(run, base).callbacks().items():
        trainer.add_callback(event, callback)
    at_end = trainer.callbacks["on_train_end"]
    at_end.insert(0, at_end.pop())  # the report has to be there when the loggers close the run


def take_largest(trainer: Any) -> bool:
    """True for `imgsz=max`, in whose place a size stands until the largest is known.

    Raises:
        RequestError: The run has several processes, which would have to agree before there is a plan.
    """
    if str(trainer.args.imgsz).lower() != "max":
        return False
    if int(trainer.world_size) > 1:
        _remove_if_fresh(Path(trainer.save_dir))
        raise RequestError("imgsz=max works on one device; find the size with `yolo-ckpt fit`, and give it")
    trainer.args.imgsz = compat.DEFAULT_IMGSZ
    return True


def _prepare(trainer: Any, run: Run) -> None:
    refused(trainer, run.preflight.look)  # before the host reads the data, and repairs what it thinks is broken
    refused(trainer, run.choose_imgsz)
    refused(trainer, run.prepare)


def refused(trainer: Any, step: Callable[[Any], T]) -> T:
    """What a step before the training answers; it moves no random state, and where it fails it leaves no run folder."""
    try:
        with random_state_kept():
            return step(trainer)
    except Exception:
        _remove_if_fresh(Path(trainer.save_dir))
        raise


def _remove_if_fresh(folder: Path) -> None:
    """Remove a run folder that holds nothing but what the trainer's constructor puts there."""
    fresh = {folder / "args.yaml", folder / "weights"}
    if folder.is_dir() and set(folder.rglob("*")) <= fresh:
        shutil.rmtree(folder)
