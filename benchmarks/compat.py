"""The tests that touch the host, on other versions of it: each in an environment of its own that shares torch.

    python benchmarks/compat.py [8.4.100 8.4.150 ...]

Without versions: the floor in pyproject.toml, one in the middle, and the installed one. Prints one JSON line each.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

from environments import new_environment

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/test_attachment.py",
    "tests/remat/test_loop.py",
    "tests/remat/test_loss.py",
    "tests/integration/test_shell.py",
    "tests/integration/test_training.py",
    "tests/integration/test_runs.py",
    "tests/integration/test_compiled.py",
    "tests/integration/test_scoring.py",
    "tests/integration/test_native.py",
    "tests/integration/test_preflight.py",
)


def environment(folder: Path, version: str) -> Path:
    """The Python of an environment with this version of ultralytics, and everything else from the running one."""
    python, site = new_environment(folder)
    (site / "shared.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n{ROOT}\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site]
    subprocess.run([*install, f"ultralytics=={version}"], check=True, stderr=subprocess.DEVNULL)
    return python


def try_version(version: str) -> dict[str, object]:
    """How the tests end on one version."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "env", version)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", *TESTS]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        lines = done.stdout.splitlines()
        failed = [re.sub(r" - .*", "", line) for line in lines if line.startswith(("FAILED", "ERROR"))]
        why = [line for line in lines if line.startswith("E  ")][:1] if failed else []
        return {"ultralytics": version, "ok": done.returncode == 0, "failed": failed, "why": why}


def versions() -> list[str]:
    """The floor, the middle and the installed version."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'"ultralytics>=([0-9.]+)"', text)
    assert found is not None
    floor, newest = found.group(1), metadata.version("ultralytics")
    (major, low), (other, high) = (v.rsplit(".", 1) for v in (floor, newest))
    middle = [f"{major}.{(int(low) + int(high)) // 2}"] if major == other and int(high) - int(low) > 1 else []
    return list(dict.fromkeys([floor, *middle, newest]))


def main() -> None:
    """Try every version that is asked for."""
    ok = True
    for version in sys.argv[1:] or versions():
        record = try_version(version)
        ok &= bool(record["ok"])
        print(json.dumps(record), flush=True)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
