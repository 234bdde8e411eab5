"""A run's random state is that of a run without a plan, whatever planning imports and does: importing a library can
draw random numbers (rich does), and so can building a data set."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import numpy as np
import torch


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Afterwards the random states of Python, NumPy and torch are what they were before."""
    restore = remember_random_state()
    try:
        yield
    finally:
        restore()


def remember_random_state() -> Callable[[], None]:
    """A function that makes the random states of Python, NumPy and torch what they are now."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)

    return restore
