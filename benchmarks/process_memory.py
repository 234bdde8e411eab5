"""Peak memory of whole training processes: stock, selective and full, one process each, on the same data.

    python benchmarks/process_memory.py data=data/aerial-trees/data.yaml imgsz=2496
    python benchmarks/process_memory.py scene=3000 imgsz=2048 mosaic=0 ckpt_attention=stock

`scene=` makes an image of that many small objects. Prints one JSON line per mode: peak resident memory of the process,
seconds, and the losses of every epoch.
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

import cv2
import numpy as np

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


def scene(folder: Path, objects: int, side: int) -> Path:
    """One image of `side` pixels with bright rectangles of 8 to 40 pixels, for training and validation; its YAML."""
    rng = np.random.default_rng(0)
    image = rng.integers(60, 120, (side, side, 3), dtype=np.uint8)
    rows = []
    for _ in range(objects):
        (w, h), kind = rng.integers(8, 40, 2), rng.integers(0, 2)
        x, y = rng.integers(0, side - w), rng.integers(0, side - h)
        cv2.rectangle(image, (int(x), int(y)), (int(x + w), int(y + h)), ((40, 220)[kind], 160, 220), -1)
        rows.append(f"{kind} {(x + w / 2) / side} {(y + h / 2) / side} {w / side} {h / side}\n")
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True)
    cv2.imwrite(str(folder / "images/scene.png"), image)
    (folder / "labels/scene.txt").write_text("".join(rows), encoding="utf-8")
    text = f"path: {folder}\ntrain: images\nval: images\nnames: [a, b]\n"
    (folder / "data.yaml").write_text(text, encoding="utf-8")
    return folder / "data.yaml"


def main() -> None:
    """Train three times, with the given arguments on top of the fixed ones."""
    given = dict(a.split("=", 1) for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        if "scene" in given:
            given["data"] = str(scene(Path(folder, "scene"), int(given.pop("scene")), int(given["imgsz"])))
        for ckpt in ("off", "selective", "full"):
            command = [sys.executable, "-m", "yolo_ckpt", "train", *FIXED, *(f"{k}={v}" for k, v in given.items())]
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
