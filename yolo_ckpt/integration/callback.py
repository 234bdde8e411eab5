"""The one callback that is registered; everything else follows from the trainer that it is handed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration.attached import extend_object
from yolo_ckpt.integration.randomness import random_state_kept
from yolo_ckpt.settings import Settings

START = "on_pretrain_routine_start"  # before there is a model; only in the process that logs
END = "on_pretrain_routine_end"  # in every process of a run, with the model built and wrapped

Yolo = TypeVar("Yolo")


@dataclass(frozen=True)
class PlanCallback:
    """Extends the trainer, whatever trainer it is, so that a plan is on the model before anything measures or copies
    it.

    An object of a plain importable class: it can be copied and pickled, as the host does with callbacks.

    Attributes:
        settings: The flags.
        resumed_only: No flag was given: plan nothing but a resumed run that had a plan.
    """

    settings: Settings
    resumed_only: bool = False

    def __call__(self, trainer: Any) -> None:
        """Called by the host before there is a model."""
        with random_state_kept():  # the run is seeded by now, and these imports may draw numbers
            from yolo_ckpt.integration.augmented import augment
            from yolo_ckpt.integration.native import take_native
            from yolo_ckpt.integration.run import Run
            from yolo_ckpt.integration.trainer import extend, refused, take_largest

            settings = self._settings_for(trainer)
            refused(trainer, take_native)
            if settings is not None:
                refused(trainer, partial(augment, name=settings.ckpt_augment))
            if settings is not None and settings.ckpt != "off":
                extend(trainer, Run(settings, largest=take_largest(trainer)))

    def _settings_for(self, trainer: Any) -> Settings | None:
        """The flags for this run: a resumed one goes on with the plan in its folder, unless a mode was asked for."""
        written = Path(trainer.save_dir, "ckpt_plan.json")
        if trainer.args.resume and self.settings.ckpt == "auto" and written.is_file():
            return replace(self.settings, ckpt=str(written))
        return None if self.resumed_only else self.settings

    def share(self, trainer: Any) -> None:
        """Called by the host in every process, with the loaders built: the others put the first one's plan on their
        model, and vary their images as it does."""
        with random_state_kept():  # in the other processes these are the first imports
            from yolo_ckpt.integration.augmented import follow_augment
            from yolo_ckpt.integration.ranks import run_of, share_plan
            from yolo_ckpt.integration.rectangles import log_rectangles

            follow_augment(trainer, self.settings.ckpt_augment)
            if self.settings.ckpt != "off":
                share_plan(trainer)
            if not self.resumed_only or run_of(trainer) is not None:
                log_rectangles(trainer, run_of(trainer))


def attach(yolo: Yolo, ckpt: str = "auto", **settings: Any) -> Yolo:
    """Train `yolo` with a plan from now on: registers the callback on it and returns it.

    Works before the first `train()` and for every later one. Attaching again replaces the settings; `ckpt="off"`
    trains as stock. Nothing about the model, its weights files or its arguments changes, but for the data's arguments
    that `ckpt_augment` sets. A resumed run goes on with the plan in its folder, unless a mode other than `auto` is
    given.

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
    register(registered, callback)
    extend_object(yolo)
    return yolo


def register_default(settings: Settings, *, resumed_only: bool = False) -> None:
    """Register the callback for every `YOLO` object that this process makes from now on."""
    from yolo_ckpt.integration import compat

    register(compat.default_callbacks(), PlanCallback(settings, resumed_only))


def callback_of(yolo: Any) -> PlanCallback | None:
    """Our callback on `yolo`."""
    return next((f for f in yolo.callbacks.get(START, ()) if isinstance(f, PlanCallback)), None)


def register(registered: Any, callback: PlanCallback) -> None:
    """Put `callback` among the `registered` ones, instead of any other of its kind."""
    for event, function in ((START, callback), (END, callback.share)):
        others = [f for f in registered[event] if not isinstance(getattr(f, "__self__", f), PlanCallback)]
        registered[event] = [function, *others]  # first: the host's `reset_callbacks` keeps the first default alone
