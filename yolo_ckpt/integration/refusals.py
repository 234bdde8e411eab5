"""What the host says of wrong arguments, told from failures that need their traceback.

Written against ultralytics 8.4.190, whose functions that look at what the user gave have these names.
"""

from __future__ import annotations

import traceback
from pathlib import Path

CHECKS = frozenset({
    "attempt_download_asset", "build_optimizer", "check_cfg", "check_dict_alignment", "check_file", "check_imgsz",
    "check_yaml", "get_dataset", "load_checkpoint", "parse_device", "select_device", "smart_value", "torch_safe_load",
})  # fmt: skip
KINDS = (
    AttributeError, ConnectionError, FileNotFoundError, NotImplementedError, RuntimeError, SyntaxError, TypeError,
    ValueError,
)  # fmt: skip
LONGEST = 300  # characters


def refusal(error: Exception) -> str | None:
    """The host's words in one line, where it is an argument, a data set or a weights file that it cannot take; None
    for any other error."""
    if not isinstance(error, KINDS):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    if not any(frame.name in CHECKS and "ultralytics" in Path(frame.filename).parts for frame in frames):
        return None
    message = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return message if len(message) <= LONGEST else f"{message[:LONGEST]} ..."
