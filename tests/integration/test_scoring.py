"""Roles of validators: what they stand for gives what the host gives, and what is not the host's stays."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from yolo_ckpt.hotspots.maskiou import ImageMasks
from yolo_ckpt.integration import scoring

ops = pytest.importorskip("ultralytics.utils.ops")


class Calls:
    """Counts the calls of our own functions, and lets everything be large."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from yolo_ckpt.hotspots import maskiou, topcandidates
        from yolo_ckpt.integration import scoring

        self.counts = dict.fromkeys(("detections", "predicted_masks", "mask_overlaps"), 0)
        for name in self.counts:
            patch.setattr(scoring, name, self.counted(name, getattr(scoring, name)))
        for module, name, value in (
            (scoring, "SMALL_SCORES", 0), (scoring, "SMALL_MASKS", 0), (topcandidates, "AT_ONCE", 100),
            (maskiou, "AT_ONCE", 999), (maskiou, "MADE_AT_ONCE", 999), (maskiou, "DECODED_ON_CPU", 999),
        ):  # fmt: skip
            patch.setattr(module, name, value)

    def counted(self, name: str, function: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.counts[name] += 1
            return function(*given, **named)

        return call


def same(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def validator(kind: Any, folder: Path) -> Any:
    """A validator that is ready for predictions of two classes."""
    made = kind(save_dir=folder, args={"imgsz": 64, "plots": False})
    made.nc, made.end2end, made.process, made.device = 2, False, ops.process_mask, torch.device("cpu")
    made.kpt_shape = [4, 3]
    return made


def kinds() -> dict[str, tuple[Any, int]]:
    """The host's validators that detect, and what they have besides boxes and classes."""
    from ultralytics.models.yolo import detect, obb, pose, segment

    return {
        "detect": (detect.DetectionValidator, 0), "segment": (segment.SegmentationValidator, 32),
        "pose": (pose.PoseValidator, 12), "obb": (obb.OBBValidator, 1),
    }  # fmt: skip


def predictions(extra: int) -> Any:
    """What a model of that kind gives for two images."""
    g = torch.Generator().manual_seed(0)
    boxes, scores = torch.rand(2, 4, 500, generator=g) * 64, torch.rand(2, 2, 500, generator=g)
    found = torch.cat([boxes, scores, torch.randn(2, extra, 500, generator=g)], 1)
    return ((found, torch.randn(2, 32, 16, 16, generator=g)), None) if extra == 32 else (found, None)


@pytest.mark.parametrize("name", ["detect", "segment", "pose", "obb"])
def test_every_kind_of_detection_is_the_hosts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, extra = kinds()[name]
    stock = validator(kind, tmp_path).postprocess(predictions(extra))
    calls, ours = Calls(monkeypatch), validator(kind, tmp_path)
    ours.__class__ = scoring.bounded(ours)
    found = ours.postprocess(predictions(extra))
    assert calls.counts["detections"] == 1
    assert calls.counts["predicted_masks"] == (2 if name == "segment" else 0)
    for a, b in zip(stock, found, strict=True):
        assert a.keys() == b.keys()
        assert [k for k in a if a[k].dtype != b[k].dtype or not torch.equal(a[k], b[k])] == []
        assert len(a["conf"]) > 20


def labelled(objects: int, *, overlap: bool) -> dict[str, Any]:
    """A batch of two images with so many objects each, and their masks."""
    g = torch.Generator().manual_seed(1)
    count, shape = 2 * objects, (16, 16)
    masks = torch.randint(objects + 1, (2, *shape), generator=g) if overlap else torch.randint(2, (count, *shape))
    return {
        "batch_idx": torch.arange(2).repeat_interleave(objects).float(), "masks": masks.float(),
        "img": torch.zeros(2, 3, 64, 64), "cls": torch.randint(2, (count, 1), generator=g).float(),
        "bboxes": torch.rand(count, 4, generator=g), "ori_shape": [(64, 64)] * 2,
        "ratio_pad": [((1.0, 1.0), (0.0, 0.0))] * 2, "im_file": ["0.png", "1.png"],
    }  # fmt: skip


def detected(count: int, side: int, batch: dict[str, Any], *, overlap: bool) -> dict[str, Any]:
    """Detections, the first of which are objects of the first image with some pixels less."""
    g = torch.Generator().manual_seed(2)
    masks = torch.rand(count, side, side, generator=g) < torch.rand(count, 1, 1, generator=g)
    labels = torch.randint(2, (count,), generator=g).float()
    for i in range(min(count, len(batch["cls"]) // 2)):
        one = batch["masks"][0] == i + 1 if overlap else batch["masks"][i] == 1
        masks[i] &= one.repeat_interleave(side // 16, 0).repeat_interleave(side // 16, 1)
        labels[i] = batch["cls"][i]
    return {"cls": labels, "bboxes": torch.rand(count, 4, generator=g) * 64, "masks": masks.byte()}


MASK_CASES: dict[str, dict[str, Any]] = {
    "numbered": {}, "single": {"overlap_mask": False}, "as large as the image": {"side": 64},
    "plotted": {"plots": True}, "no objects": {"objects": 0}, "no detections": {"count": 0},
    "too large to count exactly": {"exact": 255},
    "unknown": {"known": False}, "pictured": {"plots": True, "visualize": True}, "small": {"small": 9 * 16 * 16},
}  # fmt: skip
DENSE = ("pictured", "small", "no objects")  # true masks are made at once
STOCK = ("no detections", "too large to count exactly", "unknown", *DENSE)  # the host compares them


@pytest.mark.parametrize("case", MASK_CASES)
def test_true_positives_of_masks_are_the_hosts(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"objects": 9, "count": 40, "side": 16, "small": 0, "exact": 1 << 24, "known": True, **MASK_CASES[case]}
    calls, found = Calls(monkeypatch), []
    monkeypatch.setattr(scoring, "SMALL_MASKS", given["small"])
    monkeypatch.setattr(scoring, "EXACT", given["exact"])
    monkeypatch.setattr(scoring, "masks_are_known", lambda *_: given["known"])
    for bounded in (False, True):
        made = validator(kinds()["segment"][0], tmp_path)
        vars(made.args).update({k: v for k, v in given.items() if k in vars(made.args)})
        made.process = ops.process_mask_native if given["side"] == 64 else ops.process_mask
        made.__class__ = scoring.bounded(made) if bounded else type(made)
        torch.manual_seed(0)
        batch = labelled(given["objects"], overlap=made.args.overlap_mask)
        preds = detected(given["count"], given["side"], batch, overlap=made.args.overlap_mask)
        for i in (0, 1):
            prepared = made._prepare_batch(i, batch)
            found.append((made._process_batch(preds, prepared), type(prepared["masks"])))
    for (stock, before), (ours, after) in zip(found[:2], found[2:], strict=True):
        assert same(stock, ours)
        assert (before, after) == (torch.Tensor, torch.Tensor if case in DENSE else ImageMasks)
    assert calls.counts["mask_overlaps"] == (0 if case in STOCK else 2)
    assert found[0][0]["tp_m"].any() == (case not in ("no objects", "no detections"))


def test_what_is_small_is_left_to_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    monkeypatch.setattr(scoring, "SMALL_SCORES", 1000)
    monkeypatch.setattr(scoring, "SMALL_MASKS", 300 * 16 * 16)
    for kind, extra in kinds().values():
        ours = validator(kind, tmp_path)
        ours.__class__ = scoring.bounded(ours)
        ours.postprocess(predictions(extra))
    assert calls.counts == {"detections": 1, "predicted_masks": 0, "mask_overlaps": 0}  # turned boxes are never small


@pytest.mark.parametrize("extra", [0, 12])
def test_boxes_that_are_detections_already_are_left_to_the_host(
    extra: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    ours = validator(kinds()["pose" if extra else "detect"][0], tmp_path)
    ours.__class__, ours.end2end = scoring.bounded(ours), True
    found = ours.postprocess((torch.rand(2, 300, 6 + extra, generator=torch.Generator().manual_seed(0)), None))
    assert calls.counts["detections"] == 0
    assert all(len(image["conf"]) > 290 for image in found)


def test_the_hosts_function_is_back_also_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ultralytics.utils import nms

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory (made)")

    Calls(monkeypatch)
    monkeypatch.setattr(scoring, "detections", fail)
    before, ours = nms.non_max_suppression, validator(kinds()["segment"][0], tmp_path)
    ours.__class__ = scoring.bounded(ours)
    with pytest.raises(RuntimeError, match="made"):
        ours.postprocess(predictions(32))
    assert nms.non_max_suppression is before
    assert ours.process is ops.process_mask


def test_methods_of_ones_own_stay(tmp_path: Path) -> None:
    detector, segmenter = kinds()["detect"][0], kinds()["segment"][0]

    def roles(kind: Any, **own: Any) -> set[str]:
        made = validator(kind, tmp_path)
        vars(made).update(own)
        return {role.__name__ for role in scoring.bounded(made).__mro__} & {"BoundedDetections", "BoundedMasks"}

    def derived(base: Any, name: str) -> Any:
        return type("Own", (base,), {name: lambda self, *given: getattr(super(type(self), self), name)(*given)})

    assert roles(detector) == {"BoundedDetections"}
    assert roles(derived(detector, "preprocess")) == {"BoundedDetections"}
    assert roles(derived(detector, "postprocess")) == set()
    assert roles(segmenter) == {"BoundedDetections", "BoundedMasks"}
    assert roles(derived(segmenter, "postprocess")) == set()
    for name in ("_prepare_batch", "_process_batch", "update_metrics"):
        assert roles(derived(segmenter, name)) == {"BoundedDetections"}
        assert roles(segmenter, **{name: lambda *_: None}) == {"BoundedDetections"}


def test_validators_that_detect_nothing_stay_as_they_are(tmp_path: Path) -> None:
    from ultralytics.models.rtdetr.val import RTDETRValidator
    from ultralytics.models.yolo.classify import ClassificationValidator

    for kind in (RTDETRValidator, ClassificationValidator):
        made = kind(save_dir=tmp_path, args={"imgsz": 64})
        assert scoring.bounded(made) is kind


def test_another_nms_is_asked_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody put a function of their own where the host looks it up."""
    from ultralytics.utils import nms

    original = nms.non_max_suppression

    def fewer(*given: Any, **named: Any) -> Any:
        return [rows[:7] for rows in original(*given, **named)]

    monkeypatch.setattr(nms, "non_max_suppression", functools.wraps(original)(fewer))
    calls, ours = Calls(monkeypatch), validator(kinds()["detect"][0], tmp_path)
    ours.__class__ = scoring.bounded(ours)
    assert [len(found["conf"]) for found in ours.postprocess(predictions(0))] == [7, 7]
    assert calls.counts["detections"] == 0
