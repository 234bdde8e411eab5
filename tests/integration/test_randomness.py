"""Planning moves no random state, also in a process that has imported nothing of it before."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import torch

from yolo_ckpt.integration.randomness import random_state_kept

FRESH = """
import random
import types
import numpy as np
import torch
from yolo_ckpt.integration import PlanCallback
from yolo_ckpt.settings import Settings

random.seed(0)
before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
args = types.SimpleNamespace(resume=False, imgsz=64)
try:
    PlanCallback(Settings(ckpt="full"))(types.SimpleNamespace(save_dir="nowhere", args=args, world_size=1))
except Exception as error:  # it is no trainer, which shows after the imports
    print(type(error).__name__)
after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
assert after == before
"""


def test_first_imports_draw_no_numbers() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "RequestError"


def test_states_are_kept() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(1))

    def seed() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    seed()
    expected = draw()
    seed()
    with random_state_kept():
        draw()
    assert draw() == expected
