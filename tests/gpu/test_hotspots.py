"""The bounded parts on a CUDA device: the choice among equal values is the device's own there, as are the kernels."""

from __future__ import annotations

import pytest
import torch

tal = pytest.importorskip("ultralytics.utils.tal")

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_assignments_are_the_hosts(turned: bool) -> None:
    from tests.hotspots.test_assigner import RANKS, difference, made, problem
    from yolo_ckpt.hotspots import assigner

    kind = tal.RotatedTaskAlignedAssigner if turned else tal.TaskAlignedAssigner
    for seed in range(60):
        given = tuple(t.cuda() for t in problem(seed, turned=turned))
        one = made(kind, given, *RANKS[seed % len(RANKS)])
        with torch.no_grad():
            stock = one._forward(*(t.clone() for t in given))
            assert difference(stock, assigner.assign(one, *given)) == [], seed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention_is_fused(dtype: torch.dtype) -> None:
    from tests.hotspots.test_attention import BLOCKS, Operators, fused, step

    for name, make in BLOCKS.items():
        torch.manual_seed(0)
        stock = make().cuda().train()
        torch.manual_seed(0)
        ours = fused(make().train()).cuda()
        x = torch.randn(2, 64, 16, 16, device="cuda")
        with torch.autocast("cuda", dtype, enabled=dtype is not torch.float32):
            expected = step(stock, x)
            with Operators() as seen:
                found = step(ours, x)
        assert not {"_softmax", "bmm", "_scaled_dot_product_attention_math"} & set(seen.names), name
        for a, b in zip(expected[:2], found[:2], strict=True):
            assert float((a - b).abs().max()) <= 0.05 * float(a.abs().max()) + 1e-3, name


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_semantic_loss_is_the_hosts(classes: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """As close to fp64 as the host, and without waiting for the device."""
    from tests.hotspots.test_semantic import apart, bounded, problem, results, stock
    from yolo_ckpt.hotspots import semantic

    monkeypatch.setattr(semantic, "SMALL", 0)
    monkeypatch.setattr(semantic, "AT_ONCE", 7 * 128 * 19)
    logits, masks = problem(classes)
    exact = results(stock(classes).double(), (tuple(t.to(dtype).double() for t in logits), masks))
    given = tuple(t.to(dtype).cuda() for t in logits)
    found = []
    for loss, waits in ((stock(classes), "default"), (bounded(classes), "error")):
        ours = loss.cuda(), {"semantic_mask": masks.cuda()}, [t.clone().requires_grad_() for t in given]
        torch.cuda.set_sync_debug_mode(waits)
        try:
            with torch.autocast("cuda", torch.float16 if dtype is torch.float32 else dtype, dtype is not torch.float32):
                value, items = ours[0](tuple(ours[2]), ours[1])
            (1000 * value).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        found.append([value.detach(), *items.values(), *(t.grad for t in ours[2] if t.grad is not None)])
    for value, a, b in zip(exact.values(), *found, strict=True):
        assert a.dtype == b.dtype
        assert apart(value, b.cpu()) <= max(1e-5, 1.5 * apart(value, a.cpu()) + torch.finfo(dtype).eps)


def test_detections_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    from tests.hotspots.test_nms import assert_same, made, noise, problem
    from yolo_ckpt.hotspots import nms

    for seed in range(120):
        prediction, asked = problem(random.Random(seed), seed)
        assert_same(prediction.cuda(), **asked)
    monkeypatch.setattr(nms, "in_full_order", lambda *_: pytest.fail("the sort of long vectors is a stable one"))
    for levels in (0, 3, 1000):
        scores = noise(1, 20, 40_000, levels=levels)
        for dtype in (torch.float32, torch.float16):
            assert_same(made(scores, size=4000).cuda().to(dtype))


@pytest.mark.parametrize("side", [64, 160, 512])
def test_masks_of_a_validation_are_the_hosts(side: int) -> None:
    from ultralytics.utils import metrics, ops

    from tests.hotspots.test_maskiou import detected, hosts, numbered
    from yolo_ckpt.hotspots import maskiou
    from yolo_ckpt.hotspots.knownscoring import masks_are_known

    if not masks_are_known(ops.process_mask, metrics.mask_iou, torch.device("cuda", 0)):
        pytest.skip("products of strips round otherwise here, and so the host decodes")
    given, shape = [t.cuda() for t in detected(300, side, side)], (4 * side, 4 * side)
    found = maskiou.predicted_masks(*given, shape)
    assert torch.equal(found, ops.process_mask(*given, shape=shape))
    for start in (side, side // 2):
        masks, image = numbered(50, start, start), torch.zeros(50)
        dense = hosts(masks, 0, image, 50, [side, side], overlap=True).cuda()
        true = maskiou.ImageMasks.of(masks.cuda(), 0, image.cuda(), 50, numbered=True)
        expected = metrics.mask_iou(dense.flatten(1), found.flatten(1).float())
        assert torch.equal(maskiou.mask_overlaps(true, found), expected)
