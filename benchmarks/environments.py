"""New virtual environments, for scripts that try something in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def new_environment(folder: Path) -> tuple[Path, Path]:
    """An empty environment in `folder`: its Python and its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    where = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    return python, Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
