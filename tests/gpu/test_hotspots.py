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
