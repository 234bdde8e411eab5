"""Versions of what a run depends on, without importing any of it."""

from __future__ import annotations

import platform
from importlib import metadata

DISTRIBUTIONS = ("yolo-ckpt", "ultralytics", "torch", "torchvision")


def installed() -> dict[str, str]:
    """Version of each distribution, and of Python."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "python": platform.python_version()}
