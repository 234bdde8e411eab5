"""Peak memory of whole training processes: stock, selective and full, one process each, on the same data.

    python benchmarks/process_memory.py data=data/aerial-trees/data.yaml imgsz=2496

Prints one JSON line per mode: peak resident memory of the process, seconds, and the losses of every epoch.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIXED = (
    "model=yolo26n.yaml",
    "batch=1",
    "epochs=3",
    "val=False",
    "workers=0",
    "amp=False",
    "pretrained=False",
    "plots=False",
)


def main() -> None:
    """Train three times, with the given arguments on top of the fixed ones."""
    with tempfile.TemporaryDirectory() as folder:
        for ckpt in ("off", "selective", "full"):
            command = [sys.executable, "-m", "yolo_ckpt", "train", *FIXED, *sys.argv[1:]]
            command += [f"project={folder}", f"name={ckpt}", f"ckpt={ckpt}"]
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - start
            if process.returncode:
                raise SystemExit(
                    f"ckpt={ckpt} ended with status {process.returncode}; run it in the shell: {' '.join(command)}"
                )
            with (Path(folder) / ckpt / "results.csv").open(encoding="utf-8") as file:
                losses = [[row[k] for k in row if k.startswith("train/")] for row in csv.DictReader(file)]
            row = {"ckpt": ckpt, "rss_mib": round(usage.ru_maxrss / 1024), "seconds": round(seconds), "losses": losses}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
