"""Trainings that the host starts as processes of their own, as it does in tuning.

They get no flags on their command line, so these travel in the environment variable YOLO_CKPT, and the command that
starts them is ours, which takes what the host's takes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.integration import compat
from yolo_ckpt.settings import Settings, split_flags

VARIABLE = "YOLO_CKPT"


def flags_of_environment() -> dict[str, str]:
    """The flags in YOLO_CKPT.

    Raises:
        SettingsError: Something else is in it.
    """
    ours, rest = split_flags(os.environ.get(VARIABLE, "").split())
    if rest:
        raise SettingsError(f"{rest[0]} is not a flag; write for example {VARIABLE}='ckpt=full ckpt_stages=0-8'")
    return ours


@contextlib.contextmanager
def planned_children(settings: Settings) -> Iterator[None]:
    """Inside, trainings that the host starts are planned as `settings` say."""
    flags = {name: value for name, value in asdict(settings).items() if value is not None}
    command = [sys.executable, "-m", "yolo_ckpt"]
    text = " ".join(f"{name}={value}" for name, value in flags.items())
    with _environment(text), compat.command_line_of_children(command):
        yield


@contextlib.contextmanager
def _environment(text: str) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
