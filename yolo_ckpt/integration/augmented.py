"""`ckpt_augment`: a preset of `data.augment` as arguments of the host."""

from __future__ import annotations

from typing import Any

from torch import distributed

from yolo_ckpt.data.augment import Augmentation, Labelled, albumentations, augmentation, check_task
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration import compat, hostdata


def augment(trainer: Any, name: str) -> None:
    """Have the run vary its images as the preset `name` says; without effect for `none`. Called before there are data
    sets. A resumed run goes on as it was begun: all is among the arguments in its weights.

    Raises:
        RequestError: The run has transforms of its own or trains without any, or the host is too old to keep them.
    """
    if name == "none":
        return
    if trainer.args.resume:
        compat.log(f"ckpt_augment={name}: a resumed run goes on with the augmentation that it was begun with")
        return
    if getattr(trainer.args, "augmentations", None) is not None:
        raise RequestError(
            f"ckpt_augment={name} and augmentations= both say how images are varied; leave one of them out"
        )
    if not hostdata.keeps_transforms():
        raise RequestError(
            f"ckpt_augment={name}: ultralytics {compat.host_version()} does not keep augmentations= in its arguments; "
            f"update it to 8.4.130 or newer, or leave the flag out"
        )
    check_task(name, str(trainer.args.task))  # before the data is read, which may be a download
    made = _preset(trainer, name)
    changed, kept = _arguments(trainer, made)
    compat.set_arguments(trainer, {**changed, **_transforms(made)})
    compat.log(_line(name, made, changed, kept))


def follow_augment(trainer: Any, name: str) -> None:
    """The same in the other processes of a distributed run, which hear of it when their loaders are built; nothing has
    been loaded by then."""
    other = distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0
    if not other or name == "none" or trainer.args.resume:
        return
    made = _preset(trainer, name)
    changed, _ = _arguments(trainer, made)
    for key, value in {**changed, **_transforms(made)}.items():
        setattr(trainer.args, key, value)
    hostdata.rebuild_transforms(trainer)


def _preset(trainer: Any, name: str) -> Augmentation:
    """The preset for the run's data."""
    args, data = trainer.args, hostdata.data_of(trainer)
    keypoints = args.task == "pose"
    return augmentation(
        name,
        Labelled(
            task=str(args.task),
            rect=bool(args.rect),
            channels=int(data.get("channels", 3)),
            mirrored=not keypoints or bool(data.get("flip_idx")),
        ),
    )


def _arguments(trainer: Any, made: Augmentation) -> tuple[dict[str, float], list[str]]:
    """Those of the preset's arguments that the run changes, and the names of those that the user has set himself."""
    ours = {key: value for key, value in made.arguments.items() if getattr(trainer.args, key) != value}
    kept = [key for key in ours if getattr(trainer.args, key) != compat.default_argument(key)]
    return {key: value for key, value in ours.items() if key not in kept}, kept


def _transforms(made: Augmentation) -> dict[str, Any]:
    """As the host keeps them in its arguments (8.4.190, `BaseTrainer.__init__`)."""
    return {"augmentations": [albumentations().to_dict(t) for t in made.transforms]} if made.transforms else {}


def _line(name: str, made: Augmentation, changed: dict[str, float], kept: list[str]) -> str:
    names = ", ".join(type(t).__name__ for t in made.transforms)
    parts = [f"ckpt_augment={name}: {names or 'no transforms of pixels'}"]
    if changed:
        parts.append(", ".join(f"{key}={value:g}" for key, value in changed.items()))
    if kept:
        parts.append(f"{', '.join(kept)} as given")
    return "; ".join([*parts, *made.left_out])
