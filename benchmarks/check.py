"""What `yolo-ckpt check` takes on many files: seconds and peak memory, for a number of files and for twice as many.

    python benchmarks/check.py [files=10000] [different=300] [rounds=3]

Makes `different` small images (JPEG and PNG, 320 x 256, up to 19 boxes in each) in a temporary folder and links each as
often as it takes, so every file is opened and parsed and the disk holds few. Each check is a process of its own, in
turns; the times are medians: of the process with the start of Python and every import (wall and processor), and of the
check alone. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHILD = """
import resource, sys
from yolo_ckpt import cli
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = cli.main(sys.argv[1:])
after, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = sum(used.ru_utime + used.ru_stime for used in (after, workers))
print(status, before >> 10, after.ru_maxrss >> 10, workers.ru_maxrss >> 10, cpu, file=sys.stderr)
"""


def make_originals(folder: Path, count: int) -> None:
    """Small images with their label files."""
    import cv2

    folder.mkdir()
    random = np.random.default_rng(0)
    for i in range(count):
        image = cv2.resize(random.integers(0, 256, (32, 40, 3), dtype=np.uint8), (320, 256))
        cv2.imwrite(str(folder / f"{i}{_ending(i)}"), image)
        centres = random.uniform(0.1, 0.9, (random.integers(1, 20), 2))
        rows = [f"{random.integers(0, 3)} {x:.6f} {y:.6f} 0.05 0.05" for x, y in centres]
        (folder / f"{i}.txt").write_text("\n".join(rows), encoding="utf-8")


def _ending(i: int) -> str:
    return ".jpg" if i % 2 else ".png"


def make_set(root: Path, originals: Path, files: int, different: int) -> Path:
    """A data set of so many files, a tenth of them for validation."""
    for kind in ("images", "labels"):
        for split in ("train", "val"):
            (root / kind / split).mkdir(parents=True)
    for n in range(files):
        split, i = "train" if n % 10 else "val", n % different
        for kind, ending in (("images", _ending(i)), ("labels", ".txt")):
            os.link(originals / f"{i}{ending}", root / kind / split / f"{n}{ending}")
    yaml = root / "data.yaml"
    yaml.write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames: [a, b, c]\n", encoding="utf-8")
    return yaml


def run(yaml: Path) -> dict[str, float]:
    """One check."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", CHILD, "check", f"data={yaml}", "format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - begin
    _, before, after, worker, cpu = map(float, done.stderr.split()[-5:])
    report = json.loads(done.stdout)
    listed = sum(split["used"] for split in report["splits"].values())
    return {
        "seconds": seconds, "cpu_seconds": cpu, "check_seconds": report["seconds"], "used": listed,
        "start_mib": before, "peak_mib": after, "worker_mib": worker,
    }  # fmt: skip


def main() -> None:
    """Measure."""
    options = {"files": "10000", "different": "300", "rounds": "3"} | dict(a.split("=", 1) for a in sys.argv[1:])
    files, different = int(options["files"]), int(options["different"])
    with tempfile.TemporaryDirectory() as folder:
        make_originals(Path(folder, "originals"), different)
        counts = (files, 2 * files)
        sets = {
            count: make_set(Path(folder, str(count)), Path(folder, "originals"), count, different) for count in counts
        }
        runs: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
        for _ in range(int(options["rounds"])):
            for count in counts:
                runs[count].append(run(sets[count]))
    medians = {
        str(count): {key: round(statistics.median(r[key] for r in of_count), 2) for key in of_count[0]}
        for count, of_count in runs.items()
    }
    pairs = list(zip(runs[files], runs[2 * files], strict=True))
    ratios = {
        f"{key}_ratio": round(statistics.median(twice[key] / once[key] for once, twice in pairs), 2)
        for key in ("seconds", "cpu_seconds", "check_seconds")
    }
    print(json.dumps({**options, "cpus": os.cpu_count(), "load": os.getloadavg()[0], **medians, **ratios}))


if __name__ == "__main__":
    main()
