"""Every error that the package raises on purpose, in one tree.

A message says what was asked, what was found and what to do next, in the user's own spelling of the flag.
"""

from __future__ import annotations


class YoloCkptError(Exception):
    """Root of the tree: catch it to catch everything that this package raises on purpose."""


class RequestError(YoloCkptError, ValueError):
    """The request itself is wrong (a flag, a file, a model that does not match); exit status 2 on the shell."""


class SettingsError(RequestError):
    """A flag or setting has a value that cannot be used."""


class PlanError(RequestError):
    """A plan cannot be read, or belongs to another model."""


class BudgetInfeasibleError(RequestError):
    """No plan fits the memory budget; the message names what would.

    Attributes:
        least_bytes: The smallest peak that a plan reaches for what was asked.
        largest_imgsz: The largest size that fits with the same batch; 0 where none does.
        largest_batch: The largest batch that fits at the same size; 0 where none does.
    """

    def __init__(self, message: str, *, least_bytes: int = 0, largest_imgsz: int = 0, largest_batch: int = 0) -> None:
        super().__init__(message)
        self.least_bytes, self.largest_imgsz, self.largest_batch = least_bytes, largest_imgsz, largest_batch


class SampleError(YoloCkptError):
    """A sample data set could not be fetched or written; exit status 1 on the shell."""


class ConvertError(YoloCkptError):
    """A data set could not be converted at all; nothing was written. Exit status 1 on the shell."""


class RematError(YoloCkptError, RuntimeError):
    """A saved activation can no longer be had exactly: the backward pass must not go on."""


class ParityError(YoloCkptError, AssertionError):
    """A run with a plan differs from the run without it; the message names the first difference."""
