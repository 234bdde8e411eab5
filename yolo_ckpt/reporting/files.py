"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` so that a process killed meanwhile leaves the old file or the new one.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(partial, path)  # noqa: PTH105 (atomic on every system)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
