"""Fetching from the package index: which file is asked for, and what is refused."""

from __future__ import annotations

import hashlib
import io
import itertools
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from yolo_ckpt.data import wheels
from yolo_ckpt.data.samples import aerial, medical
from yolo_ckpt.errors import SampleError


def archive() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("a.txt", "a")
    return held.getvalue()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pip was asked for; it puts an archive where it is told to."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        Path(command[command.index("--dest") + 1], "made-1.0-py3-none-any.whl").write_bytes(archive())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def pinned(wheel: wheels.Wheel) -> wheels.Wheel:
    return wheels.Wheel(
        name=wheel.name, version=wheel.version, tags=wheel.tags, sha256=hashlib.sha256(archive()).hexdigest()
    )


def test_a_wheel_for_one_platform_is_fetched_on_all(asked: list[list[str]]) -> None:
    """Whatever Python runs here: the tags are the wheel's."""
    with wheels.opened(pinned(medical.STARDIST)) as found:
        assert found.read("a.txt") == b"a"
    (command,) = asked
    options = dict(itertools.pairwise(command))
    assert options["--platform"] == "manylinux_2_28_x86_64"
    assert options["--python-version"] == "3.11"
    assert options["--abi"] == "cp311"
    assert command[-1] == "stardist==0.9.2"


def test_a_wheel_for_all_platforms_needs_no_tags(asked: list[list[str]]) -> None:
    with wheels.opened(pinned(aerial.DEEPFOREST)):
        pass
    assert "--platform" not in asked[0]


@pytest.mark.usefixtures("asked")
def test_another_file_is_refused() -> None:
    with pytest.raises(SampleError, match="gave another file"), wheels.opened(medical.STARDIST):
        pass


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        ("warning\nERROR: No matching distribution found for x\n", "No matching distribution found for x"),
        ("/usr/bin/python: No module named pip\n\n", "/usr/bin/python: No module named pip"),
    ],
)
def test_a_failed_download_says_why(stderr: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SampleError, match=rf"\({why}\).*network"):
        wheels._download(medical.PYDICOM, Path())
