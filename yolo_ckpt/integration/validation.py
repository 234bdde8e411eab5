"""Validation in no more memory than training: as many images at a time, and fewer after a failure.

The host validates twice the batch. Its images are padded to one shape for each of its batches, and that shape decides
what a model finds; so the shapes stay those of the host's batches, and every one of them is taken in parts. Metrics are
the same; the validation losses in results.csv are means over more and smaller batches. What is made of an image's
predictions is bounded too (`scoring.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yolo_ckpt.integration import compat
from yolo_ckpt.integration.randomness import remember_random_state
from yolo_ckpt.integration.scoring import bounded, named_like


class Validation:
    """The validation loader of one run.

    Attributes:
        events: One line for each validation that did not fit.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self._group = 0  # images that share a shape: the host's batch
        self._batch = 0
        self._rank = -1
        self._building = False

    def loader(self, build: Callable[..., Any], path: Any, group: int, rank: int, most: int) -> Any:
        """The loader that `build` makes, with `most` images at a time, for which the host asked `group`."""
        self._group, self._batch, self._rank = group, _part_of(group, most), rank
        return self._build(build, path)

    def grouped(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments (path, mode, batch) of a data set; those of one for validation with the images that share a
        shape."""
        if self._building and len(given) == 3 and given[1] == "val":
            return (*given[:2], self._group)
        return given

    def watch(self, trainer: Any, build: Callable[..., Any]) -> None:
        """Bound what the validator of `trainer` needs for detections and masks, and let it try again with fewer images,
        in loaders that `build` makes; the latter not in a run of several processes."""
        if not self._group:
            return
        kind, run = bounded(trainer.validator), self
        if int(trainer.world_size) > 1:
            trainer.validator.__class__ = kind
            return

        class Validator(kind):  # type: ignore[misc,valid-type]
            """The run's own, which tries again."""

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                """Metrics of the validation."""
                restore = remember_random_state()  # what a failed validation drew was not drawn
                while True:
                    try:
                        return super().__call__(*args, **kwargs)
                    except RuntimeError as error:
                        if not compat.is_out_of_memory(error):
                            raise
                        failure = error.with_traceback(None)
                    if not run.shrink(trainer, build):
                        raise failure
                    restore()

        trainer.validator.__class__ = named_like(kind, Validator)

    def shrink(self, trainer: Any, build: Callable[..., Any]) -> bool:
        """Give the validator a loader with half as many images at a time; False where it has one image."""
        trainer._clear_memory()
        if self._batch <= 1:
            return False
        before, self._batch = self._batch, _part_of(self._group, self._batch // 2)
        loader = self._build(build, trainer.data[trainer.args.split])
        if hasattr(trainer.test_loader, "close"):
            trainer.test_loader.close()
        trainer.test_loader = trainer.validator.dataloader = loader
        line = f"epoch {int(trainer.epoch) + 1}, validation: {before} images at a time did not fit; now {self._batch}"
        self.events.append(line)
        compat.log(line, warning=True)
        return True

    def _build(self, build: Callable[..., Any], path: Any) -> Any:
        self._building = True
        try:
            return build(path, batch_size=self._batch, rank=self._rank, mode="val")
        finally:
            self._building = False


def _part_of(group: int, most: int) -> int:
    """The largest divisor of `group` that is not above `most`: no part goes over the border between two groups."""
    return next(n for n in range(min(max(most, 1), group), 0, -1) if group % n == 0)
