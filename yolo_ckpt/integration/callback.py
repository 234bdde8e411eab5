"""The one callback that is registered; everything else follows from the trainer that it is handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from yolo_ckpt.errors import RequestError
from yolo_ckpt.settings import Settings

EVENT = "on_pretrain_routine_start"

Yolo = TypeVar("Yolo")


@dataclass(frozen=True)
class PlanCallback:
    """Extends the trainer, whatever trainer it is, so that a plan is on the model before anything measures or copies
    it.

    An object of a plain importable class: it can be copied and pickled, as the host does with callbacks.
    """

    settings: Settings

    def __call__(self, trainer: Any) -> None:
        """Called by the host before there is a model."""
        from yolo_ckpt.integration.run import Run
        from yolo_ckpt.integration.trainer import extend

        if self.settings.ckpt != "off":
            extend(trainer, Run(self.settings))


def attach(yolo: Yolo, ckpt: str = "auto", **settings: Any) -> Yolo:
    """Train `yolo` with a plan from now on: registers the callback on it and returns it.

    Works before the first `train()` and for every later one. Attaching again replaces the settings; `ckpt="off"`
    trains as stock. Nothing about the model, its weights files or its arguments changes.

    Args:
        yolo: An `ultralytics.YOLO` or `RTDETR` object, or anything with `add_callback` and `callbacks`.
        ckpt: As the flag `ckpt`.
        **settings: Other flags, for example `ckpt_stages="backbone"`.

    Raises:
        SettingsError: A setting is wrong.
        RequestError: `yolo` takes no callbacks.
    """
    callback = PlanCallback(Settings.from_mapping({"ckpt": ckpt, **settings}))
    registered = getattr(yolo, "callbacks", None)
    if registered is None or not hasattr(yolo, "add_callback"):
        raise RequestError(f"attach needs an ultralytics YOLO or RTDETR object, got {type(yolo).__name__}")
    _replace(registered, callback)
    return yolo


def register_default(settings: Settings) -> None:
    """Register the callback for every `YOLO` object that this process makes from now on."""
    from yolo_ckpt.integration import compat

    _replace(compat.default_callbacks(), PlanCallback(settings))


def _replace(registered: Any, callback: PlanCallback) -> None:
    others = [c for c in registered[EVENT] if not isinstance(c, PlanCallback)]
    registered[EVENT] = [*others, callback]
