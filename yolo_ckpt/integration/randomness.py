"""A run's random state is that of a run without a plan, whatever planning imports and does: importing a library can
draw random numbers (rich does), and so can building a data set."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Afterwards the random states of Python, NumPy and torch are what they were before."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
