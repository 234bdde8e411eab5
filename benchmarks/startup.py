"""What the enabled hook costs a Python start that has nothing to do with ultralytics: pairs of `python -c pass`.

    python benchmarks/startup.py [pairs=20]

Makes an empty environment, starts its Python with and without the hook in turns, and prints one JSON line with the
median difference in milliseconds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import new_environment

from yolo_ckpt.integration.hook import FILE, STARTUP


def start_ms(python: Path) -> float:
    """Milliseconds of one start."""
    begin = time.perf_counter()
    subprocess.run([python, "-c", "pass"], check=True)
    return (time.perf_counter() - begin) * 1e3


def environment(folder: Path, *, hook: bool) -> Path:
    """The Python of a new environment."""
    python, site = new_environment(folder)
    if hook:
        (site / FILE).write_text(STARTUP, encoding="utf-8")
    start_ms(python)
    return python


def main() -> None:
    """Measure."""
    options = {"pairs": "20"} | dict(a.split("=", 1) for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        plain, hooked = (environment(Path(folder) / str(h), hook=h) for h in (False, True))
        differences, plains = [], []
        for i in range(int(options["pairs"])):
            order = (plain, hooked) if i % 2 else (hooked, plain)
            taken = {python: start_ms(python) for python in order}
            differences.append(taken[hooked] - taken[plain])
            plains.append(taken[plain])
    record = {"plain_ms": statistics.median(plains), "added_ms": statistics.median(differences)}
    print(json.dumps({**options, **{k: round(v, 3) for k, v in record.items()}}))


if __name__ == "__main__":
    main()
