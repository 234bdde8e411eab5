"""Runs with `compile=True`: the compiler plans for itself, within a memory budget that it is given.

A compiled model cannot be recorded. The compiler keeps a share of the activations instead and recomputes the rest:
`torch._functorch.config.activation_memory_budget`, 1 for as much as without it.
"""

from __future__ import annotations

from torch import nn

from yolo_ckpt.integration import compat
from yolo_ckpt.settings import Settings

BUDGETS = {"selective": 0.5, "auto": 0.5, "full": 0.2}
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class CompilerBudget:
    """The compiler's memory budget for the time of one run."""

    def __init__(self) -> None:
        self._before: float | None = None

    def set(self, settings: Settings) -> None:
        """Give the compiler the budget that stands for a mode; a plan file counts as `selective`."""
        from torch._functorch import config

        budget = BUDGETS.get(settings.ckpt, BUDGETS["selective"])
        self._before = config.activation_memory_budget
        config.activation_memory_budget = budget
        compat.log(
            f"compile=True: the compiler plans for itself, within {budget:g} of the activation memory "
            f"(ckpt={settings.ckpt}); the model is left as it is"
        )

    def warn(self, model: nn.Module) -> None:
        """Warn of dropout, which the compiler draws again when it recomputes."""
        if any(isinstance(m, _DROPOUTS) and m.p > 0 for m in model.modules()):
            compat.log(
                "the model has dropout, which torch draws anew where a compiled model is recomputed (pytorch#190758): "
                "its gradients are wrong; train with compile=False or dropout=0",
                warning=True,
            )

    def restore(self) -> None:
        """Put back what was there."""
        from torch._functorch import config

        if self._before is not None:
            config.activation_memory_budget = self._before
            self._before = None
