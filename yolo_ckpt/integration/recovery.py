"""Training steps that did not fit, in any epoch: the plan is tightened and the run goes on.

What happens when memory is not enough in the forward or backward pass of a batch:

1. The accumulation window that the batch is in is dropped whole: its gradients, what its batches did to buffers, and
   the optimizer step at its end. Its remaining batches are not run. Parameters, optimizer, averages and buffers are
   those of a run that never saw the window.
2. What the failed step held is let go, and a tighter plan is put on the model, with the same batch.
3. Where there is no tighter plan, the host halves the batch, as it does by itself in the first epoch: in later ones it
   is made to think that it is in the first. It starts the epoch again then, as it does in the first.
4. The host counts its halvings: after three without a finished epoch between them the next failure ends the run with
   the host's error.

Runs of several processes are left to the host, which ends them: the others would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from yolo_ckpt import attachment
from yolo_ckpt.integration import compat
from yolo_ckpt.stages import unwrap


class Recovery:
    """The failed steps of one run.

    Attributes:
        events: One line for each, for the report.

    Args:
        tighten: Puts a tighter plan on the trainer's model; False where there is none.
    """

    def __init__(self, tighten: Callable[[Any], bool]) -> None:
        self.events: list[str] = []
        self._tighten = tighten
        self._trainer: Any = None
        self._loss: Tensor | None = None  # of the batch that runs
        self._buffers: list[Tensor] = []  # of the model
        self._saved: list[Tensor] = []  # what they were at the start of the window
        self._begun = False  # the window
        self._dropping = False
        self._start_epoch: int | None = None  # the host's, while it thinks that the run begins with this epoch

    def watch(self, trainer: Any) -> None:
        """Follow the training steps of `trainer`, which is about to begin; not where there are several processes."""
        if int(trainer.world_size) > 1 or getattr(trainer.args, "compile", False):
            return
        self._trainer = trainer
        self._buffers = list(unwrap(trainer.model).buffers())
        self._saved = [torch.empty_like(buffer) for buffer in self._buffers]
        attachment.guard(unwrap(trainer.model), self.forward)
        compat.scale_with(trainer, self.backward)

    def epoch_starts(self, trainer: Any) -> None:
        """The host has begun an epoch, perhaps once more."""
        if self._start_epoch is not None:
            trainer.start_epoch, self._start_epoch = self._start_epoch, None

    def preprocess(self, step: Callable[[Any], Any], batch: Any) -> Any:
        """The host's preparation of a batch."""
        if self._dropping:
            return batch
        if self._trainer is None:
            return step(batch)
        return self._guarded(lambda: step(batch), "its images", lambda: batch)

    def forward(self, forward: Callable[[Any], Any], batch: Any) -> Any:
        """The model's forward pass with its loss, or nothing in a window that is dropped."""
        if self._dropping:
            return self._nothing()
        if not self._begun:
            self._begun = True
            torch._foreach_copy_(self._saved, self._buffers)
        self._loss = None

        def run() -> Any:
            made = forward(batch)
            self._loss = made[0]
            return made

        return self._guarded(run, "forward", self._nothing)

    def backward(self, scaled: Tensor) -> None:
        """The backward pass from the scaled loss."""
        if not self._dropping:
            self._guarded(scaled.backward, "backward", lambda: None)
            self._loss = None

    def optimizer_step(self, step: Callable[[], None]) -> None:
        """The step at the end of a window, unless that is dropped."""
        if self._dropping:
            self._trainer.optimizer.zero_grad()
        else:
            step()
        self._window_ends()

    def _window_ends(self) -> None:
        self._dropping = self._begun = False

    def _guarded(self, run: Callable[[], Any], where: str, instead: Callable[[], Any]) -> Any:
        """What `run` gives; `instead` after a failure that was recovered from."""
        try:
            return run()
        except RuntimeError as error:
            if not compat.is_out_of_memory(error):
                raise
            failure = error.with_traceback(None)  # the traceback holds the step's tensors
        self._drop_window()
        self._recover(failure, where)
        return instead()

    def _nothing(self) -> tuple[Tensor, dict[str, Any]]:
        """A loss that no parameter has a part in; the epoch's mean stays what it is."""
        trainer = self._trainer
        items = trainer.tloss or dict.fromkeys(compat.loss_names(trainer), 0.0)
        items = {k: torch.as_tensor(v, device=trainer.device).detach() for k, v in items.items()}
        return torch.zeros(1, device=trainer.device, requires_grad=True), items

    def _drop_window(self) -> None:
        """Let go of the step, and undo the window."""
        trainer = self._trainer
        for loss in (self._loss, getattr(trainer, "loss", None)):
            if isinstance(loss, Tensor) and not loss._is_view():
                loss.detach_()  # the host still holds it, and it the whole graph
        self._loss = None
        trainer.optimizer.zero_grad()
        if self._begun:
            torch._foreach_copy_(self._buffers, self._saved)
        trainer._clear_memory()

    def _recover(self, failure: RuntimeError, where: str) -> None:
        """Tighten the plan, or let the host halve the batch.

        Raises:
            RuntimeError: `failure`, where only the host can go on.
        """
        trainer = self._trainer
        epoch, batch = int(trainer.epoch) + 1, int(trainer.batch_size)
        with torch.autocast(trainer.device.type, enabled=False):
            tighter = self._tighten(trainer)
        if not tighter:
            self._window_ends()
            self._note(f"epoch {epoch}, {where}: no tighter plan is left; the host halves batch={batch}, if it may")
            if trainer.epoch > trainer.start_epoch:
                self._start_epoch, trainer.start_epoch = trainer.start_epoch, trainer.epoch
            raise failure
        attachment.guard(unwrap(trainer.model), self.forward)
        self._dropping = True
        self._note(
            f"epoch {epoch}, {where}: the step did not fit; its accumulation window is dropped, the plan is tighter "
            f"now, batch stays at {batch}"
        )

    def _note(self, line: str) -> None:
        self.events.append(line)
        compat.log(line, warning=True)
