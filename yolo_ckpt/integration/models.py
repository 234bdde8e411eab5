"""Loading a model by name, without training it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from yolo_ckpt.errors import RequestError


def load_model(name: str, device: str) -> Any:
    """The task model that `name` (a YAML of the host, or a weights file) describes, ready for a training step with its
    loss, on `device`.

    Raises:
        RequestError: There is no such model, or it cannot be built.
    """
    from ultralytics import RTDETR, YOLO
    from ultralytics.cfg import get_cfg

    with _quiet():
        try:
            model = (RTDETR if "rtdetr" in name else YOLO)(name).model
        except (FileNotFoundError, ValueError, SyntaxError, ConnectionError, TypeError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise RequestError(
                f"model={name} cannot be loaded ({reason[0]}); give a model YAML or a .pt file"
            ) from error
    model.args, model.nc = get_cfg(), model.yaml["nc"]  # as the host's trainer sets them for the loss
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dtype.is_floating_point)
    return model.train().to(device)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the host's model summary: standard output is for the answer."""
    from ultralytics.utils import LOGGER

    level = LOGGER.level
    LOGGER.setLevel(logging.ERROR)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
