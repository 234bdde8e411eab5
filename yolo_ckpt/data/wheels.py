"""Fetching a data file that somebody published inside a Python wheel: pinned, checked, without its dependencies."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from yolo_ckpt.errors import SampleError


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel on the package index.

    Attributes:
        name: Distribution name.
        version: Exact version.
        sha256: Of the file.
        tags: Python version, ABI and platform of the file (`("3.11", "cp311", "manylinux_2_28_x86_64")`) where the
            release has several. The same file is fetched on every machine: only data is taken out of it. Empty: the
            release has one file, for all.
    """

    name: str
    version: str
    sha256: str
    tags: tuple[str, str, str] | tuple[()] = ()


@contextmanager
def opened(wheel: Wheel) -> Iterator[zipfile.ZipFile]:
    """The wheel as an open archive, downloaded with pip into a temporary folder.

    Raises:
        SampleError: It could not be downloaded, or is not the file that was pinned.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = _download(wheel, Path(folder))
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != wheel.sha256:
            raise SampleError(
                f"{path.name} has SHA-256 {found}, expected {wheel.sha256}; the package index gave another file, "
                f"nothing was written"
            )
        with zipfile.ZipFile(path) as archive:
            yield archive


def _download(wheel: Wheel, folder: Path) -> Path:
    pinned = f"{wheel.name}=={wheel.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    if wheel.tags:
        python, abi, platform = wheel.tags
        command += ["--implementation", "cp", "--python-version", python, "--abi", abi, "--platform", platform]
    command += ["--disable-pip-version-check", "--retries", "1", "--dest", str(folder), pinned]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    files = sorted(folder.glob("*.whl"))
    if done.returncode or not files:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("ERROR")] or lines or ["pip gave no reason"]
        raise SampleError(
            f"{pinned} could not be downloaded from the package index ({said[-1].removeprefix('ERROR: ')}); check the "
            f"network, or pip's index settings, and run the command again"
        )
    return files[0]
