"""The least that `selective` can cost: the kernels that every such plan has to run again, and nothing else.

    python benchmarks/floor.py yolo26n.yaml imgsz=640 batch=2 pairs=15

A plan that keeps convolution outputs alone has to normalise each of them once more and to apply the activation once
more, however little its bookkeeping takes. This runs just these two kernels, on tensors of the shapes that the model
has, in turns with stock training steps (without the loss). Prints one JSON line: 1 + kernels / step, median of the
pairs, and its range; and the milliseconds of the kernels.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import torch
from torch import Tensor, nn

from yolo_ckpt.integration.models import load_model
from yolo_ckpt.measuring import training_step

SMALL_BYTES = 1 << 16  # the engine keeps what is smaller


def maps_of(model: nn.Module, images: Tensor) -> list[tuple[Tensor, bool]]:
    """A tensor like each map (B, C, H, W) that is normalised, and whether a SiLU follows."""
    found: list[tuple[Tensor, bool]] = []

    def note(block: nn.Module) -> None:
        followed = isinstance(getattr(block, "act", None), nn.SiLU)
        block.bn.register_forward_hook(lambda _, __, out: found.append((torch.rand_like(out), followed)))

    for module in model.modules():
        if isinstance(getattr(module, "bn", None), nn.BatchNorm2d):
            note(module)
    with torch.no_grad():
        model(images)
    return [(t, followed) for t, followed in found if t.nbytes >= SMALL_BYTES]


def recompute(maps: list[tuple[Tensor, bool]]) -> None:
    """Normalise every map, and activate it where an activation follows."""
    with torch.no_grad():
        for y, followed in maps:
            ones = torch.ones(y.size(1))
            z = torch.native_batch_norm(y, ones, ones, ones, ones, False, 0.0, 0.0)[0]
            if followed:
                nn.functional.silu(z)


def main() -> None:
    """Measure what the arguments ask for."""
    options = {"imgsz": "640", "batch": "2", "pairs": "15"} | dict(a.split("=", 1) for a in sys.argv[2:])
    imgsz, batch, pairs = (int(options[k]) for k in ("imgsz", "batch", "pairs"))
    model, images = load_model(sys.argv[1], "cpu"), torch.rand(batch, 3, imgsz, imgsz)
    maps = maps_of(load_model(sys.argv[1], "cpu"), images)
    work = {"step": lambda: training_step(model, images), "kernels": lambda: recompute(maps)}
    for run in work.values():
        run()
    ratios, kernels_ms = [], []
    for _ in range(pairs):
        seconds = {}
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name] = time.perf_counter() - start
        ratios.append(1 + seconds["kernels"] / seconds["step"])
        kernels_ms.append(seconds["kernels"] * 1e3)
    mib = sum(t.nbytes for t, _ in maps) / 2**20
    found = {"floor": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "recomputed_mib": mib}
    found["kernels_ms"] = statistics.median(kernels_ms)
    print(json.dumps({"model": sys.argv[1], **options, **{k: round(v, 3) for k, v in found.items()}}))


if __name__ == "__main__":
    main()
