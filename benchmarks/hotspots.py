"""What else is large at full resolution, stock against bounded: the assigner, the mask and semantic losses, the losses
of all tasks; and in validation NMS and masks.

    python benchmarks/hotspots.py assigner imgsz=4096 boxes=3000 classes=2 [stock=no]
    python benchmarks/hotspots.py masks positives=1000 side=512
    python benchmarks/hotspots.py semantic imgsz=2048 classes=19
    python benchmarks/hotspots.py losses imgsz=2048 objects=1000 [models=yolo26n.yaml,...]
    python benchmarks/hotspots.py nms imgsz=4096 classes=80 model=untrained [stock=no turned=yes]
    python benchmarks/hotspots.py valmasks objects=1000 detections=300 side=512 [from=256]

All but the losses run on the CPU and print live bytes beyond their inputs and the median time of some runs. Losses are
simulated: peak of a training step with its loss, and what the loss needs beyond what is alive when it begins.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from ultralytics.utils import nms as host_nms
from ultralytics.utils.loss import SemanticSegmentationLoss, v8SegmentationLoss
from ultralytics.utils.metrics import mask_iou
from ultralytics.utils.ops import process_mask
from ultralytics.utils.tal import TaskAlignedAssigner, make_anchors

from yolo_ckpt.hotspots import assigner_roles
from yolo_ckpt.hotspots.maskiou import ImageMasks, mask_overlaps, predicted_masks
from yolo_ckpt.hotspots.masks import mask_loss
from yolo_ckpt.hotspots.semantic import semantic_loss
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.integration.scoring import bounded_nms
from yolo_ckpt.measuring import LiveBytes
from yolo_ckpt.planner import make_plan
from yolo_ckpt.settings import Settings

MIB = 1 << 20
STRIDES = (8, 16, 32)
MODELS = (
    "yolo26n.yaml,yolo11n.yaml,yolo26n-seg.yaml,yolo11n-seg.yaml,yolo26n-pose.yaml,yolo11n-pose.yaml,yolo26n-obb.yaml,"
    "yolo11n-obb.yaml,yolo26n-sem.yaml,yolo26n-depth.yaml"
)


def measured(run: Callable[[], Any], given: list[Tensor], times: int = 3) -> dict[str, float]:
    """MiB beyond `given`, and the median of some runs in milliseconds."""
    milliseconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        milliseconds.append((time.perf_counter() - start) * 1e3)
    with LiveBytes() as live:
        live.add(given)
        before = live.current_bytes
        run()
    return {"mib": round((live.peak_bytes - before) / MIB, 1), "ms": round(statistics.median(milliseconds), 1)}


def assigner(
    imgsz: str = "4096", boxes: str = "3000", classes: str = "2", batch: str = "1", stock: str = "yes"
) -> None:
    """One assignment."""
    size, count, images = int(imgsz), int(boxes), int(batch)
    g = torch.Generator().manual_seed(0)
    points, strides = make_anchors(
        [torch.zeros(1, 1, size // s, size // s) for s in STRIDES], torch.tensor(STRIDES) * 1.0
    )
    points = points * strides
    sides = 20 + 60 * torch.rand(images, count, 2, generator=g)
    centres = size * torch.rand(images, count, 2, generator=g)
    true = torch.cat([centres - sides / 2, centres + sides / 2], -1)
    around = 40 * torch.rand(images, points.shape[0], 4, generator=g)
    given = [
        torch.rand(images, points.shape[0], int(classes), generator=g),
        torch.cat([points - around[..., :2], points + around[..., 2:]], -1),
        points,
        torch.randint(int(classes), (images, count, 1), generator=g).float(),
        true,
        torch.ones(images, count, 1),
    ]
    one = TaskAlignedAssigner(topk=10, num_classes=int(classes), alpha=0.5, beta=6.0, stride=list(STRIDES))
    bounded = type("Bounded", (*assigner_roles(one), TaskAlignedAssigner), {})
    results = {}
    for name, kind in (("bounded", bounded), ("stock", TaskAlignedAssigner))[: 2 if stock == "yes" else 1]:
        one.__class__ = kind
        found = measured(lambda: one(*given), given, 1 if name == "stock" and size > 2000 else 5)
        print(json.dumps({"assigner": name, "imgsz": size, "boxes": count, "batch": images, **found}), flush=True)
        results[name] = one(*given)
    if stock == "yes":
        equal = [torch.equal(a, b) for a, b in zip(*results.values(), strict=True)]
        print(json.dumps({"outputs equal": all(equal)}))


def masks(positives: str = "1000", side: str = "512", objects: str = "100", largest: str = "0.2") -> None:
    """One image's mask loss, forward and backward."""
    count, size, items = int(positives), int(side), int(objects)
    g = torch.Generator().manual_seed(0)
    anchors = (size * size) // 4
    positive = torch.zeros(1, anchors, dtype=torch.bool)
    positive[0, torch.randperm(anchors, generator=g)[:count]] = True
    which = torch.randint(items, (1, anchors), generator=g)
    sides = 0.01 + float(largest) * torch.rand(items, 2, generator=g)
    centres = torch.rand(items, 2, generator=g)
    boxes = torch.cat([(centres - sides / 2).clamp(0), (centres + sides / 2).clamp(max=1)], -1) * size * 4
    truth = torch.randint(items + 1, (1, size, size), generator=g).float()
    proto, coefficients = torch.randn(1, 32, size, size, generator=g), 0.3 * torch.randn(1, anchors, 32, generator=g)
    given = [
        positive,
        truth,
        which,
        boxes[which],
        torch.zeros(items, 1),
        proto,
        coefficients,
        torch.tensor([size * 4.0] * 2),
    ]
    stock = v8SegmentationLoss.__new__(v8SegmentationLoss)
    stock.overlap = True

    def step(loss: Callable[..., Tensor]) -> list[Tensor]:
        a, b = (t.detach().requires_grad_() for t in (proto, coefficients))
        value = loss(*given[:5], a, b, given[7])
        return [value.detach(), *torch.autograd.grad(value, (a, b))]

    ways = {"bounded": lambda *t: mask_loss(*t, overlap=True), "stock": stock.calculate_segmentation_loss}
    results = {}
    for name, loss in ways.items():
        print(
            json.dumps(
                {"mask loss": name, "positives": count, "side": size, **measured(functools.partial(step, loss), given)}
            )
        )
        results[name] = step(loss)
    relative = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*results.values(), strict=True)]
    print(json.dumps({"relative difference of value and gradients": relative}))


def semantic(imgsz: str = "2048", classes: str = "19", batch: str = "1") -> None:
    """The loss of semantic segmentation with auxiliary logits, forward and backward."""
    size, count, images = int(imgsz), int(classes), int(batch)
    g = torch.Generator().manual_seed(0)
    given = [3 * torch.randn(images, count, size // s, size // s, generator=g) for s in (8, 16)]
    masks = torch.randint(max(count, 2), (images, size, size), generator=g).int()
    model: Any = torch.nn.Conv2d(1, 1, 1)
    model.model, model.args = [SimpleNamespace(nc=count)], SimpleNamespace(data="")
    stock = SemanticSegmentationLoss(model)

    def step(loss: Callable[..., Any]) -> list[Tensor]:
        logits = [t.detach().requires_grad_() for t in given]
        value, _ = loss(*logits)
        return [value.detach(), *torch.autograd.grad(value, logits)]

    ways = {
        "bounded": lambda *logits: semantic_loss(stock.ce, *logits, masks),
        "stock": lambda *logits: stock(logits, {"semantic_mask": masks}),
    }
    results = {}
    for name, loss in ways.items():
        found = measured(functools.partial(step, loss), [*given, masks])
        print(json.dumps({"semantic loss": name, "imgsz": size, "classes": count, "batch": images, **found}))
        results[name] = step(loss)
    relative = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*results.values(), strict=True)]
    print(json.dumps({"relative difference of value and gradients": relative}))


def losses(imgsz: str = "2048", objects: str = "1000", batch: str = "1", models: str = MODELS) -> None:
    """The losses of all tasks, simulated."""
    for name in models.split(","):
        model = load_model(name, "meta")
        request = Conditions(imgsz=int(imgsz), batch=int(batch), budget_bytes=0, objects=int(objects))
        row: dict[str, Any] = {"model": name}
        for ckpt in ("off", "full"):
            plan = make_plan(model, Settings(ckpt=ckpt), imgsz=int(imgsz), batch=int(batch))
            step = request.simulated(model).step(plan)
            begins = next(w.start_bytes for w in step.windows if w.phase == "loss")
            peak = max(w.peak_bytes for w in step.windows if w.stage == len(plan.stages))
            row[ckpt] = {"step_mib": step.peak_bytes // MIB, "loss_mib": (peak - begins) // MIB}
        print(json.dumps(row), flush=True)


def nms(
    imgsz: str = "4096", classes: str = "80", model: str = "untrained", stock: str = "yes", turned: str = "no"
) -> None:
    """NMS of one image, as in validation. An untrained model gives every anchor every class with a score a little above
    the threshold; a trained one few anchors one class."""
    size, count, rotated = int(imgsz), int(classes), turned == "yes"
    g = torch.Generator().manual_seed(0)
    anchors = sum((size // s) ** 2 for s in STRIDES)
    centres = torch.rand(1, 2, anchors, generator=g) * size
    sides = 10 + 100 * torch.rand(1, 2, anchors, generator=g)
    around, spread = (-4.0, 0.5) if model == "untrained" else (-12.0, 1.2)
    scores = (around + spread * torch.randn(1, count, anchors, generator=g)).sigmoid_()
    prediction = torch.cat([centres, sides, scores, torch.rand(1, int(rotated), anchors, generator=g)], 1)
    del scores
    asked = {
        "conf_thres": 0.01 if rotated else 0.001,
        "iou_thres": 0.7,
        "multi_label": True,
        "max_det": 300,
        "nc": count,
    }
    original = host_nms.non_max_suppression
    ways = {"bounded": bounded_nms(original), "stock": original}
    results = {}
    candidates = int((prediction[:, 4 : 4 + count] > asked["conf_thres"]).sum())
    for name, way in list(ways.items())[: 2 if stock == "yes" else 1]:
        run = functools.partial(way, prediction, **asked, rotated=rotated)
        results[name] = run()[0]
        found = measured(run, [prediction], 1 if candidates > 1e6 else 7)
        row = {"nms": name, "imgsz": size, "classes": count, "candidates": candidates, **found}
        print(json.dumps(row), flush=True)
    if stock == "yes":
        print(json.dumps({"outputs equal": torch.equal(*results.values())}))


def valmasks(objects: str = "1000", detections: str = "300", side: str = "512", **given: str) -> None:
    """Masks of one validated image: decoded, and compared with the true ones, which come from a map of side `from`."""
    count, size, items, start = int(detections), int(side), int(objects), int(given.get("from", side))
    g = torch.Generator().manual_seed(0)
    proto, coefficients = torch.randn(32, size, size, generator=g), 0.3 * torch.randn(count, 32, generator=g)
    sides = (0.01 + 0.1 * torch.rand(count, 2, generator=g)) * size * 4
    centres = torch.rand(count, 2, generator=g) * size * 4
    boxes = torch.cat([centres - sides / 2, centres + sides / 2], 1)
    truth = torch.randint(items + 1, (1, start // 8, start // 8), generator=g).float()
    truth = truth.repeat_interleave(8, 1).repeat_interleave(8, 2)

    def stock_overlaps(found: Tensor) -> Tensor:
        true = (truth[0] == torch.arange(1, items + 1).view(items, 1, 1)).float()
        true = functional.interpolate(true[None], [size, size], mode="bilinear", align_corners=False)[0].gt_(0.5)
        return mask_iou(true.flatten(1), found.flatten(1).float())

    def overlaps(found: Tensor) -> Tensor:
        true = ImageMasks.of(truth, 0, torch.zeros(items), items, numbered=True)
        return mask_overlaps(true, found)

    shape = (size * 4, size * 4)
    ways = {"bounded": (predicted_masks, overlaps), "stock": (process_mask, stock_overlaps)}
    results = {}
    for name, (decode, compare) in ways.items():
        run = functools.partial(decode, proto, coefficients, boxes, shape)
        found, inputs = run(), [proto, coefficients, boxes, truth]
        row = {"masks": name, "objects": items, "detections": count, "side": size, "decode": measured(run, inputs)}
        run = functools.partial(compare, found)
        print(json.dumps({**row, "compare": measured(run, [*inputs, found])}), flush=True)
        results[name] = (found, run())
    equal = [torch.equal(a, b) for a, b in zip(*results.values(), strict=True)]
    print(json.dumps({"outputs equal": all(equal)}))


def main() -> None:
    """Run what the first argument names."""
    ways = {
        "assigner": assigner, "masks": masks, "semantic": semantic, "losses": losses, "nms": nms, "valmasks": valmasks,
    }  # fmt: skip
    ways[sys.argv[1]](**dict(a.split("=", 1) for a in sys.argv[2:]))


if __name__ == "__main__":
    main()
