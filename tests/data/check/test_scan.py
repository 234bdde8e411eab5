"""Looking at many files: processes and threads give the same, and what kills one is said."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.data.check.made import IMAGES, add, make_set
from tests.data.check.test_images import checked
from yolo_ckpt import cli
from yolo_ckpt.data.check import scan

pytest.importorskip("ultralytics")
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


def everything(root: Path) -> Path:
    """A set with one of every bad image."""
    yaml = make_set(root)
    for i, (file, make) in enumerate(IMAGES.values()):
        add(root, f"train/{i:02d}.{file[2:]}", make())
    return yaml


def numbers_apart(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what differs from one time to the next."""
    return {name: value for name, value in report.items() if name not in ("seconds", "memory")}


@linux
def test_processes_find_what_threads_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = everything(tmp_path)
    in_threads = checked(yaml, capsys)
    parent, started = os.getpid(), []
    begin = scan.ProcessPoolExecutor
    monkeypatch.setattr(scan, "ProcessPoolExecutor", lambda *a, **k: started.append(os.getpid()) or begin(*a, **k))
    monkeypatch.setattr(scan, "_FEW", 1)
    monkeypatch.setattr(scan, "_CHUNK", 4)
    in_processes = checked(yaml, capsys)
    assert started == [parent]
    assert in_processes[0] == in_threads[0] == 1
    assert numbers_apart(in_processes[1]) == numbers_apart(in_threads[1])


@linux
def test_a_process_that_is_killed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    yaml = make_set(tmp_path)
    monkeypatch.setattr(scan, "_FEW", 1)
    monkeypatch.setattr(scan, "look", lambda *_: os._exit(9))
    assert cli.main(["check", f"data={yaml}"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert "a process that read the files was killed" in captured.err


def test_progress_is_told(tmp_path: Path) -> None:
    done: list[int] = []
    assert scan.in_threads(lambda n: n * n, list(range(200)), done.append) == [n * n for n in range(200)]
    assert sum(done) == 200
    assert len(done) > 1
