"""Bounded NMS against the host's: the same detections, in the same order, to the last bit."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from yolo_ckpt.hotspots import nms, suppression, topcandidates
from yolo_ckpt.hotspots.knownscoring import known_steps
from yolo_ckpt.measuring import LiveBytes

host = pytest.importorskip("ultralytics.utils.nms")
torchvision = pytest.importorskip("torchvision")

MIB = 1 << 20
ASKED = {
    "conf_thres": 0.001, "iou_thres": 0.7, "classes": None, "agnostic": False, "multi_label": True, "max_det": 300,
    "nc": 0, "max_time_img": 99.0, "max_nms": 30000, "max_wh": 7680, "rotated": False,
}  # fmt: skip


@functools.cache
def steps() -> nms.Steps:
    from ultralytics.utils.metrics import batch_probiou

    found = known_steps(host.non_max_suppression, torchvision.ops.nms, batch_probiou)
    assert found is not None
    return found


def ours(prediction: Tensor, **asked: Any) -> list[Tensor]:
    return nms.detections(prediction, nms.Request(**{**ASKED, **asked}), steps(), late=lambda _: pytest.fail("late"))


def assert_same(prediction: Tensor, **asked: Any) -> list[Tensor]:
    """Both give the same; what they give."""
    stock = host.non_max_suppression(prediction.clone(), **{**ASKED, **asked})
    found = ours(prediction, **asked)
    for a, b in zip(stock, found, strict=True):
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        assert torch.equal(a.nan_to_num(-1.0), b.nan_to_num(-1.0))
    return found


def made(scores: Tensor, extra: int = 0, size: float = 300.0, seed: int = 0) -> Tensor:
    """Predictions with these scores (B, classes, A)."""
    g = torch.Generator().manual_seed(seed)
    shape = (scores.shape[0], 2, scores.shape[2])
    centres, sides = torch.rand(shape, generator=g) * size, torch.rand(shape, generator=g) * 100
    others = torch.randn(scores.shape[0], extra, scores.shape[2], generator=g)
    return torch.cat([centres, sides, scores, others], 1)


def noise(*shape: int, levels: int = 0, seed: int = 0) -> Tensor:
    """Scores, all different or on a few levels."""
    g = torch.Generator().manual_seed(seed)
    scores = torch.rand(shape, generator=g)
    return (scores * levels).round() / levels if levels else scores


def vary(patch: pytest.MonkeyPatch, r: random.Random) -> None:
    """Parts of many sizes."""
    patch.setattr(topcandidates, "AT_ONCE", r.choice([300, 1000, 1 << 19]))
    patch.setattr(suppression, "FIRST", r.choice([1, 16, 2048]))
    patch.setattr(suppression, "WIDTH", r.choice([7, 64, 1024]))
    patch.setattr(suppression, "PAIRS_AT_ONCE", r.choice([64, 5000, 1 << 19]))


def problem(r: random.Random, seed: int) -> tuple[Tensor, dict[str, Any]]:
    """Random predictions, and what is asked of them."""
    turned = r.random() < 0.3
    classes, extra = r.choice([1, 2, 3, 20]), 1 if turned else r.choice([0, 1, 4, 32])
    shape = (r.choice([1, 2, 3]), classes, r.choice([1, 5, 50, 100]) if turned else r.choice([1, 5, 50, 300, 700]))
    scores = noise(*shape, levels=r.choice([2, 10, 1000, 0]), seed=seed) ** r.choice([0.5, 1, 3, 8])
    if r.random() < 0.2:
        scores[noise(*shape, seed=seed + 1) < 0.05] = float("nan")
    if r.random() < 0.1:
        scores[0] = 0
    prediction = made(scores, extra, r.choice([20, 300, 4000]), seed)
    if r.random() < 0.2:
        prediction[:, :4] = prediction[:, :4].round()
    if r.random() < 0.2:
        prediction[..., 1::3] = prediction[..., ::3][..., : prediction[..., 1::3].shape[-1]]
    kept = r.choice([1, 10, 100, 1000] if turned else [1, 10, 100, 1000, 30000])
    return prediction.to(r.choice([torch.float32, torch.float32, torch.float16, torch.float64])), {
        "conf_thres": r.choice([0.001, 0.01, 0.5]), "iou_thres": r.choice([0.0, 0.45, 0.7, 1.0]),
        "classes": r.choice([None, None, [0], [0, 2]]), "agnostic": r.random() < 0.3, "multi_label": r.random() < 0.7,
        "max_det": r.choice([1, 10, 300, 300, 1000]), "nc": classes, "max_nms": kept, "rotated": turned,
    }  # fmt: skip


def test_random_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    full, original = [], topcandidates.in_full_order
    monkeypatch.setattr(nms, "in_full_order", lambda *given: full.append(1) or original(*given))
    found = 0
    for seed in range(240):
        r = random.Random(seed)
        prediction, asked = problem(r, seed)
        with monkeypatch.context() as patch:
            vary(patch, r)
            found += sum(map(len, assert_same(prediction, **asked)))
    assert found > 3000
    assert nms.sorts_stably(torch.device("cpu")) or len(full) > 30


@pytest.mark.parametrize("order", ["rising", "falling", "equal", "equal at the border", "one class", "last anchor"])
@pytest.mark.parametrize("asked", [{}, {"agnostic": True}, {"multi_label": False}, {"classes": [1, 3]}], ids=str)
def test_scores_in_an_order(order: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topcandidates, "AT_ONCE", 100)
    scores = (
        noise(1, 4, 500).flatten().sort(descending=order == "falling").values.view(1, 500, 4).transpose(1, 2).clone()
    )
    if order.startswith("equal"):
        scores[:] = 0.5
    if order == "equal at the border":
        scores[0, 0, ::10] = noise(50)
    if order == "one class":
        scores[:, 1:] = 0
    if order == "last anchor":
        scores[..., :-1] = 0
    for most in (1, 49, 50, 51, 100, 2000):
        assert_same(made(scores), max_nms=most, **asked)


def test_nothing_is_found() -> None:
    empty = assert_same(
        torch.cat([made(torch.zeros(1, 3, 50), 4), made(torch.full((1, 3, 50), float("nan")), 4)]), nc=3
    )
    assert [rows.shape for rows in empty] == [(0, 10), (0, 10)]


def test_images_after_one_without_detections() -> None:
    found = assert_same(made(torch.stack([torch.zeros(3, 50), noise(3, 50)])))
    assert [bool(len(rows)) for rows in found] == [False, True]


def test_an_anchor_with_a_score_that_is_no_number_is_left_out() -> None:
    scores = noise(1, 3, 50)
    scores[0, 1, 7] = float("nan")
    prediction = made(scores, size=1e6)
    found = assert_same(prediction)[0]
    assert len(found) == 49 * 3


def test_turned_boxes_on_the_threshold() -> None:
    """Equal boxes overlap as much as a box can; a threshold of just that tells how versions of the host compare."""
    prediction = made(noise(1, 2, 40), extra=1)
    prediction[:, [0, 1, 2, 3, -1], 1::2] = prediction[:, [0, 1, 2, 3, -1], ::2]
    boxes = prediction[0, [0, 1, 2, 3, -1]].T
    overlap = steps().overlap(boxes, boxes)
    for threshold in overlap.diagonal()[:8].tolist():
        assert_same(prediction, rotated=True, nc=2, iou_thres=min(threshold, 1.0))


def test_different_scores_need_no_full_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nms, "in_full_order", lambda *_: pytest.fail("all scores sorted"))
    scores = torch.randperm(8000, generator=torch.Generator().manual_seed(0)).view(1, 4, 2000) / 8000
    for most, detections in ((1000, 300), (1000, 9999), (300, 10)):
        assert_same(made(scores), max_nms=most, max_det=detections)


def test_equal_scores_behind_the_last_detection_need_no_full_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nms, "in_full_order", lambda *_: pytest.fail("all scores sorted"))
    scores = torch.full((1, 4, 2000), 0.5)
    scores[0, 0, torch.randperm(2000)[:50]] = 0.5 + torch.arange(1, 51) / 200
    assert_same(made(scores, size=1e5), max_nms=1000, max_det=20)


@pytest.mark.parametrize("levels", [(0.9, 0.5), (0.9, 0.9), (0.5, 0.9)])
def test_as_many_equal_scores_as_are_kept(levels: tuple[float, float]) -> None:
    scores = torch.full((1, 1, 400), levels[0])
    scores[..., 100::3] = levels[1]
    for most in (99, 100, 101, 299, 300, 301):
        assert_same(made(scores, size=1e4), max_nms=most)
        assert_same(made(scores, size=1e4), max_nms=most, max_det=20)


def test_which_of_equal_scores_are_kept_decides_what_is_found() -> None:
    """Half of them lie under the best box: the first of them, in the order of anchors."""
    scores = torch.full((1, 1, 500), 0.5)
    scores[..., 0] = 0.9
    prediction = made(scores, size=1e5)
    prediction[:, :4, :250] = prediction[:, :4, :1]
    for most in (50, 100, 200):
        assert_same(prediction, max_nms=most)


def test_a_short_sort_is_not_taken_for_a_stable_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA sorts long vectors stably and short ones not."""
    monkeypatch.setattr(nms, "sorts_stably", lambda _: True)
    for seed in range(5):
        assert_same(made(noise(1, 3, 300, levels=5, seed=seed)), max_nms=100)


def test_a_stable_sort_needs_no_full_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA: the host's sort is made a stable one here."""
    argsort = Tensor.argsort
    monkeypatch.setattr(Tensor, "argsort", lambda t, *given, **named: argsort(t, *given, **{**named, "stable": True}))
    monkeypatch.setattr(nms, "sorts_stably", lambda _: True)
    monkeypatch.setattr(nms, "PROBED", (1,))
    monkeypatch.setattr(nms, "in_full_order", lambda *_: pytest.fail("all scores sorted"))
    monkeypatch.setattr(topcandidates, "AT_ONCE", 500)
    for levels in (1, 2, 20, 500):
        for most in (10, 100, 1000):
            assert_same(made(noise(2, 4, 1000, levels=levels)), max_nms=most)


def test_whether_the_sort_is_stable_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    argsort = Tensor.argsort
    given = torch.arange(1 << 14).remainder(97).float()
    here = torch.equal(given.argsort(descending=True), given.argsort(descending=True, stable=True))
    assert nms.sorts_stably.__wrapped__(torch.device("cpu")) is here
    monkeypatch.setattr(Tensor, "argsort", lambda t, *given, **named: argsort(t, *given, **{**named, "stable": True}))
    assert nms.sorts_stably.__wrapped__(torch.device("cpu"))


def test_what_it_needs_does_not_grow_with_the_candidates() -> None:
    peaks = []
    for anchors in (20_000, 40_000):
        count = 40 * anchors
        scores = (1 + torch.randperm(count, generator=torch.Generator().manual_seed(0))) / count
        prediction = made(scores.view(1, 40, anchors))  # all of them candidates, none equal
        with LiveBytes() as live:
            live.add([prediction])
            before = live.current_bytes
            ours(prediction, conf_thres=0.0, max_nms=3000)
        peaks.append(live.peak_bytes - before)
    assert peaks[1] - peaks[0] < 0.5 * MIB  # stock: 800,000 more candidates are 50 MiB
    assert peaks[1] < 16 * MIB


def test_turned_boxes_need_no_table_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    prediction = made(noise(1, 1, 1500), extra=1, size=4000)
    monkeypatch.setattr(suppression, "PAIRS_AT_ONCE", 1 << 17)
    with LiveBytes() as live:
        live.add([prediction])
        before = live.current_bytes
        ours(prediction, rotated=True, nc=1, max_det=9999)
    assert live.peak_bytes - before < 24 * MIB  # stock: ten tables of 8.6 MiB


def test_late_images_get_nothing() -> None:
    told: list[float] = []
    asked = nms.Request(**{**ASKED, "max_time_img": -1.0})  # two seconds less one for each of three images
    found = nms.detections(made(noise(3, 2, 50)), asked, steps(), told.append)
    assert told == [-1.0]
    assert [bool(len(rows)) for rows in found] == [True, False, False]


def test_another_function_is_not_taken_for_the_hosts() -> None:
    from ultralytics.utils.metrics import batch_probiou

    def one_less(*given: Any, **named: Any) -> Any:
        return [rows[:-1] for rows in host.non_max_suppression(*given, **named)]

    def soft(*given: Any, **named: Any) -> Any:
        return host.non_max_suppression(*given, **{**named, "iou_thres": min(named["iou_thres"] + 0.1, 1.0)})

    for other in (one_less, soft):
        assert known_steps(other, torchvision.ops.nms, batch_probiou) is None
