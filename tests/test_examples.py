"""Every example runs from beginning to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, example, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "peak of a training step" in done.stdout
    assert (tmp_path / "train" / "weights" / "best.torchscript").is_file()
