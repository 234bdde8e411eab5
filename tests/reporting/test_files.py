"""Files are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_ckpt.reporting import write_whole


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
