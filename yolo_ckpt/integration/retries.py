"""Steps of the first epoch that did not fit.

The host halves the batch then, three times at most, and builds its loaders again. A tighter plan takes the place of a
halving; the host counts the halvings that remain.
"""

from __future__ import annotations

from typing import Any

from yolo_ckpt.integration import compat


class Retries:
    """The halvings of one run.

    Attributes:
        batch: Images in a step when the loaders were built last.
    """

    def __init__(self) -> None:
        self.batch = 0
        self._halvings = 0
        self._counted = 0  # what the host's counter was set to

    def begin(self, trainer: Any) -> None:
        """The loaders are built."""
        self.batch = int(trainer.batch_size)

    def failed(self, trainer: Any) -> bool:
        """True when the host has just halved the batch."""
        return compat.failed_steps(trainer) > self._counted

    def undo(self, trainer: Any) -> None:
        """Take the halving back; none came before, since a tighter plan always comes first."""
        trainer.args.batch = trainer.batch_size = self.batch
        self._count(trainer, 1)  # no halving stands, but the host goes on with the epoch only where its count is not 0

    def accept(self, trainer: Any) -> None:
        """Let the halving be."""
        self._halvings += 1
        self._count(trainer, self._halvings)

    def _count(self, trainer: Any, count: int) -> None:
        self._counted = count
        compat.count_failed_steps(trainer, count)
