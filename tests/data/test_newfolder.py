"""A new folder is there whole or not at all, also where the target is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_ckpt.data.newfolder import new_folder
from yolo_ckpt.errors import SampleError


def write_two(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refuse_second(path: Path, to: Path) -> Path:
        if path.name == "b.txt":
            raise OSError(5, "Input/output error")
        return rename(path, to)

    with new_folder(target, "dir", SampleError) as folder:
        (folder / "a").mkdir()
        (folder / "a" / "x.txt").write_text("x", encoding="utf-8")
        (folder / "b.txt").write_text("b", encoding="utf-8")
        monkeypatch.setattr(Path, "rename", refuse_second)


def test_a_move_that_stops_half_way_takes_back_what_it_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SampleError, match=r"cannot be put in place \(Input/output error\)"):
        write_two(tmp_path, monkeypatch)
    assert list(tmp_path.iterdir()) == []
