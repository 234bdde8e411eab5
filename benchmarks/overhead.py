"""Step time with a plan against stock, in alternating pairs in one process.

    python benchmarks/overhead.py yolo26n.yaml imgsz=640 batch=2 ckpt=selective pairs=15

Both models come from the same seed and take turns, in changing order, so that a slow spell of the machine hits both.
Prints one JSON line with the median, lowest and highest ratio. The step is forward and backward from gradients of one,
without the loss.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from torch import nn

import yolo_ckpt
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.measuring import training_step


def timed(model: nn.Module, images: torch.Tensor) -> float:
    """Seconds of one training step."""
    if images.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    training_step(model, images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Measure what the arguments ask for."""
    options = {"imgsz": "640", "batch": "2", "ckpt": "selective", "pairs": "9", "device": "cpu"}
    options |= dict(a.split("=", 1) for a in sys.argv[2:])
    imgsz, batch, pairs = (int(options[k]) for k in ("imgsz", "batch", "pairs"))
    models = []
    for ckpt in ("off", options["ckpt"]):
        torch.manual_seed(0)
        model = load_model(sys.argv[1], options["device"])
        models.append(yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=imgsz, batch=batch, ckpt=ckpt)))
    images = torch.rand(batch, 3, imgsz, imgsz, device=options["device"])
    for model in models:
        timed(model, images)
    ratios = []
    for i in range(pairs):
        order = models if i % 2 else models[::-1]
        seconds = {id(m): timed(m, images) for m in order}
        ratios.append(seconds[id(models[1])] / seconds[id(models[0])])
    found = {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    print(json.dumps({"model": sys.argv[1], **options, **{k: round(v, 3) for k, v in found.items()}}))


if __name__ == "__main__":
    main()
