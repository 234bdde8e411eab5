"""An inspection pipeline in one file: images in, a trained, exported and reloaded detector out, in bounded memory.

    python examples/inspection_pipeline.py [folder]

The images are made here (dark spots on a bright plate, 640 px); yours would come from a camera. The pipeline looks at
the plan before it trains, trains with it, reads the report back as data and decides by it, exports the weights, and
inspects a new plate with the exported file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2
import numpy as np
from ultralytics import YOLO

import yolo_ckpt

SIZE_PX = 640


def make_plate(rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """A plate with some faults, and its rows of labels."""
    plate = rng.normal(200, 8, (SIZE_PX, SIZE_PX, 3)).clip(0, 255).astype(np.uint8)
    rows = []
    for x, y in rng.integers(30, SIZE_PX - 30, (rng.integers(3, 9), 2)).tolist():
        cv2.circle(plate, (x, y), 12, (40, 40, 60), -1)
        rows.append(f"0 {x / SIZE_PX:.6f} {y / SIZE_PX:.6f} {24 / SIZE_PX:.6f} {24 / SIZE_PX:.6f}")
    return plate, rows


def write_data(folder: Path) -> Path:
    """A YOLO data set of such plates."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2)):
        for kind in ("images", "labels"):
            (folder / kind / split).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            plate, rows = make_plate(rng)
            cv2.imwrite(str(folder / "images" / split / f"{i}.png"), plate)
            (folder / "labels" / split / f"{i}.txt").write_text("\n".join(rows), encoding="utf-8")
    path = folder / "data.yaml"
    path.write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [fault]\n", encoding="utf-8")
    return path


def main() -> None:
    """Run the pipeline in the folder that is given."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/inspection").resolve()
    data = write_data(folder / "data")
    yolo = YOLO("yolo26n.yaml")

    plan = yolo_ckpt.plan(yolo.model, imgsz=SIZE_PX, batch=2, ckpt="full")
    print(f"planned: {len(plan.planned)} of {len(plan.stages)} stages")

    yolo_ckpt.attach(yolo, ckpt="full").train(
        data=str(data), imgsz=SIZE_PX, batch=2, epochs=2, project=str(folder), name="train", exist_ok=True,
        plots=False, workers=0,
    )  # fmt: skip

    run = Path(yolo.trainer.save_dir)
    report = json.loads((run / "ckpt_report.json").read_text(encoding="utf-8"))
    peak_bytes = report["allocated_bytes"] or report["live_bytes"]
    print(f"peak of a training step: {peak_bytes / 2**20:.0f} MiB; a step took {report['step_ms']:.0f} ms")

    exported = YOLO(run / "weights" / "best.pt").export(format="torchscript", imgsz=SIZE_PX)
    detector = YOLO(exported, task="detect")
    plate, rows = make_plate(np.random.default_rng(7))
    found = detector.predict(plate, imgsz=SIZE_PX, conf=0.001, max_det=20, verbose=False)[0]
    print(f"a new plate with {len(rows)} faults: {len(found.boxes)} candidates from {exported}")


if __name__ == "__main__":
    main()
