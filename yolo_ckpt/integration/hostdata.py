"""The host's data sets: read before it trains on them, and what they know of their images. Written against ultralytics
8.4.190."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any


def data_of(trainer: Any) -> dict[str, Any]:
    """The run's data sets as the host reads them from `data=`; before it has, it reads them now."""
    if getattr(trainer, "data", None) is not None:
        return dict(trainer.data)
    if not isinstance(trainer.get_dataset, _Read):
        trainer.get_dataset = _Read(trainer)
    return dict(trainer.get_dataset.found)


class _Read:
    """What the trainer's `get_dataset` answers once, having been asked before the host asks. Until then the run's
    arguments name the data as the user did, which is what loggers send."""

    def __init__(self, trainer: Any) -> None:
        self._trainer, given = trainer, trainer.args.data
        self.found, self._resolved = trainer.get_dataset(), trainer.args.data
        trainer.args.data = given

    def __call__(self) -> Any:
        self._trainer.args.data = self._resolved
        del self._trainer.get_dataset
        return self.found


def checked_data(path: str) -> dict[str, Any]:
    """The data sets that a YAML file names, as the host reads it."""
    from ultralytics.data.utils import check_det_dataset

    with _quiet():
        return dict(check_det_dataset(path, autodownload=False))


def image_files(data: Mapping[str, Any], split: str, fraction: Any = 1.0) -> list[str]:
    """The images of one split of `data`, as the host's data set will have them.

    Raises:
        FileNotFoundError: There are none.
    """
    from ultralytics.data.base import BaseDataset

    lister = object.__new__(BaseDataset)
    lister.prefix = ""
    lister.fraction = 1.0 if data.get("complete") else _fraction(fraction, split)
    with _quiet():
        return [str(path) for path in lister.get_img_files(data[split])]


def _fraction(fraction: Any, split: str) -> Any:
    """The part of a split that is used. Older versions of the host know one for `train` alone."""
    from ultralytics.data import utils

    if hasattr(utils, "get_split_fraction"):
        return utils.get_split_fraction(fraction, split)
    return fraction if split == "train" else 1.0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the host says of a data set, which it will say again when it trains on it."""
    from ultralytics.utils import LOGGER

    level = LOGGER.level
    LOGGER.setLevel("CRITICAL")
    try:
        yield
    finally:
        LOGGER.setLevel(level)


def rebuild_transforms(trainer: Any) -> None:
    """Make the transforms of the training set again, by the trainer's arguments."""
    data = trainer.train_loader.dataset
    for part in getattr(data, "datasets", [data]):
        part.transforms = part.build_transforms(hyp=copy.copy(trainer.args))
    trainer.train_loader.reset()


def keeps_transforms() -> bool:
    """True for versions of the host that keep Albumentations transforms among their arguments, as dictionaries
    (8.4.130; 8.4.120 does not, and would train without them)."""
    from ultralytics.data.augment import Albumentations

    return "from_dict" in inspect.getsource(Albumentations.__init__)


def batch_shapes(data: Any) -> list[tuple[int, int]]:
    """Height and width of its batch for every image of a training set with `rect=True`."""
    shapes = getattr(data, "batch_shapes", None)
    return [] if shapes is None else [(int(shapes[i][0]), int(shapes[i][1])) for i in data.batch]


def image_heights_widths(data: Any) -> list[tuple[int, int]]:
    """Height and width of every image, where its data set knows them: with `rect=True` it forgets them."""
    labels = getattr(data, "labels", None) or []
    return [(int(label["shape"][0]), int(label["shape"][1])) for label in labels if "shape" in label]
