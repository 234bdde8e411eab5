"""The bounded assigner against the host's: outputs to the last bit, memory, and whom it stands for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from yolo_ckpt.hotspots import assigner, assigner_roles, candidates, toprows
from yolo_ckpt.measuring import LiveBytes

tal = pytest.importorskip("ultralytics.utils.tal")

STRIDES = (8, 16, 32)
CASES = 500
RANKS = ((10, None), (7, 1), (1, None), (10, 4))


def anchors(height: int, width: int) -> tuple[Tensor, Tensor]:
    feats = [torch.zeros(1, 1, height // s, width // s) for s in STRIDES]
    points, strides = tal.make_anchors(feats, torch.tensor([float(s) for s in STRIDES]))
    return points * strides, strides.view(-1)


def problem(seed: int, *, turned: bool, images: int = 2, boxes: int = 12, side: int = 320) -> tuple[Tensor, ...]:
    """Random scores, predictions and boxes; what is difficult about them depends on the seed."""
    g = torch.Generator().manual_seed(seed)
    height, width = side, side + 32 * (seed % 3)
    points, _ = anchors(height, width)
    count = points.shape[0]
    largest = (0.03, 0.2, 1.5)[seed % 3]  # tiny boxes, common ones, boxes that cover the image
    size = 2 + torch.rand(images, boxes, 2, generator=g) * largest * side
    centre = torch.rand(images, boxes, 2, generator=g) * torch.tensor([width, height])
    if seed % 4 == 1:
        centre = centre / 15  # a crowd at the first anchors, where equal values are chosen
    if seed % 4 == 2:
        centre[:, 1:], size[:, 1:] = centre[:, :1], size[:, :1]  # the same box again and again
    around = torch.rand(images, count, 4, generator=g) * 40
    scores = torch.rand(images, count, 3, generator=g)
    if seed % 5 < 2:
        around, scores = (around / 16).round() * 16, (scores * 2).round() / 2  # many equal values, many zeros
    if turned:
        angle = torch.rand(images, boxes, 1, generator=g) * 3
        true = torch.cat([centre, size, angle], -1)
        found = torch.cat([points.expand(images, -1, -1) + 3, around[..., :2] + 4, around[..., 2:3] / 30], -1)
    else:
        true = torch.cat([centre - size / 2, centre + size / 2], -1).clamp_(0)
        found = torch.cat([points - around[..., :2], points + around[..., 2:]], -1)
    real = torch.randint(0, boxes + 1, (images, 1, 1), generator=g)  # an image may have none
    valid = (torch.arange(boxes)[None, :, None] < real).float()
    labels = torch.randint(3, (images, boxes, 1), generator=g).float()
    return scores, found, points, labels, true * valid, valid


def made(kind: Any, given: tuple[Tensor, ...], topk: int, topk2: int | None, **more: Any) -> Any:
    """An assigner as the host's losses make it."""
    classes = given[0].shape[-1]
    found = kind(topk=topk, topk2=topk2, num_classes=classes, alpha=0.5, beta=6.0, stride=list(STRIDES), **more)
    found.bs, found.n_max_boxes = given[4].shape[:2]
    return found


def difference(stock: tuple[Tensor, ...], ours: tuple[Tensor, ...] | None) -> list[int]:
    assert ours is not None
    return [i for i, (a, b) in enumerate(zip(stock, ours, strict=True)) if a.dtype != b.dtype or not torch.equal(a, b)]


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_random_and_adversarial_assignments_are_the_hosts(turned: bool) -> None:
    kind = tal.RotatedTaskAlignedAssigner if turned else tal.TaskAlignedAssigner
    given_anchors = 0
    for seed in range(CASES // 2):
        given = problem(seed, turned=turned)
        one = made(kind, given, *RANKS[seed % len(RANKS)])
        with torch.no_grad():
            stock = one._forward(*(t.clone() for t in given))
            assert difference(stock, assigner.assign(one, *given)) == [], seed
        given_anchors += int(stock[3].sum())
    assert given_anchors > 10 * CASES


def test_small_parts_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "TILES_AT_ONCE", 20)
    monkeypatch.setattr(candidates, "TESTS_AT_ONCE", 3)
    monkeypatch.setattr(toprows, "AT_ONCE", 2000)
    monkeypatch.setattr(assigner, "AT_ONCE", 100)
    for seed in range(8):
        given = problem(seed, turned=False)
        one = made(tal.TaskAlignedAssigner, given, *RANKS[seed % len(RANKS)])
        with torch.no_grad():
            assert difference(one._forward(*(t.clone() for t in given)), assigner.assign(one, *given)) == [], seed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores(dtype: torch.dtype) -> None:
    for seed in range(6):
        given = problem(seed, turned=False)
        given = (given[0].to(dtype), *given[1:])
        one = made(tal.TaskAlignedAssigner, given, 10, None)
        with torch.no_grad():
            assert difference(one._forward(*(t.clone() for t in given)), assigner.assign(one, *given)) == [], seed


def test_keypoint_overlaps_and_their_gate() -> None:
    g = torch.Generator().manual_seed(0)
    for seed in range(12):
        given = problem(seed, turned=False)
        images, boxes = given[4].shape[:2]
        one = made(tal.PoseTaskAlignedAssigner, given, 10, None, sigmas=torch.full((5,), 0.2))
        one.anc_strides = anchors(320, 320 + 32 * (seed % 3))[1]
        if seed % 2:  # a thin box on whose only level there is no anchor in it
            one.level_range = (2.0, 3.0)
            given[4][:, 0], given[5][:, 0] = torch.tensor([50.0, 20.0, 58.0, 300.0]), 1.0
        places = torch.rand(images, given[2].shape[0], 5, 2, generator=g) * 320
        points = torch.cat([torch.rand(images, boxes, 5, 2, generator=g) * 320, torch.ones(images, boxes, 5, 1)], -1)
        extra = {"pd_kpts": places, "gt_kpts": points}
        with torch.no_grad():
            stock = one._forward(*(t.clone() for t in given), **extra)
            assert difference(stock, assigner.assign(one, *given, **extra)) == [], seed


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_take_the_hosts_way(value: float) -> None:
    given = problem(1, turned=False)
    given[1][0, 5] = value
    one = made(tal.TaskAlignedAssigner, given, 10, None)
    given[4][0, 0], given[5][0, 0] = torch.tensor([0.0, 0.0, 300.0, 300.0]), 1.0
    assert assigner.assign(one, *given) is None


def bounded(one: Any) -> Any:
    kind = type(one)
    one.__class__ = type(kind.__name__, (assigner.BoundedAssigner, kind), {})
    return one


def test_no_table_of_boxes_by_anchors() -> None:
    """1,200 boxes on 8,400 anchors: the host's tables are 140 MiB and more."""
    given = problem(0, turned=False, images=1, boxes=1200, side=640)
    given = (*given[:5], torch.ones_like(given[5]))
    peaks = []
    for one in (
        made(tal.TaskAlignedAssigner, given, 10, None),
        bounded(made(tal.TaskAlignedAssigner, given, 10, None)),
    ):
        with LiveBytes() as live:
            live.add(given)
            before = live.current_bytes
            one(*given)
        peaks.append(live.peak_bytes - before)
    assert peaks[0] > 100 << 20
    assert peaks[1] < 0.1 * peaks[0]


def test_small_problems_are_left_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigner, "assign", lambda *_, **__: pytest.fail("not worth it"))
    given = problem(0, turned=False, images=1)
    bounded(made(tal.TaskAlignedAssigner, given, 10, None))(*given)


def test_fewer_anchors_than_the_choice_among_equals_needs() -> None:
    points = torch.zeros(639, 2)
    assert not assigner.can_bound(made(tal.TaskAlignedAssigner, problem(0, turned=False), 10, None), points)
    assert assigner.can_bound(made(tal.TaskAlignedAssigner, problem(0, turned=False), 9, None), points)


class Scaled(tal.TaskAlignedAssigner):  # type: ignore[misc]
    """A user's own overlap."""

    def iou_calculation(self, gt_bboxes: Tensor, pd_bboxes: Tensor) -> Tensor:
        return super().iou_calculation(gt_bboxes, pd_bboxes) * 0.5


class LastOfEquals(tal.TaskAlignedAssigner):  # type: ignore[misc]
    """A user's own way to settle conflicts."""

    def select_highest_overlaps(
        self, mask_pos: Tensor, overlaps: Tensor, n_max_boxes: int, align_metric: Tensor
    ) -> Any:
        return super().select_highest_overlaps(mask_pos, overlaps.roll(1, 1), n_max_boxes, align_metric)


class WithoutOne(tal.TaskAlignedAssigner):  # type: ignore[misc]
    """A user's own choice."""

    def get_pos_mask(self, *given: Any, **extra: Any) -> Any:
        mask, metric, overlaps = super().get_pos_mask(*given, **extra)
        mask[:, 1] = 0
        return mask, metric, overlaps


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (tal.TaskAlignedAssigner, True),
        (tal.RotatedTaskAlignedAssigner, True),
        (Scaled, True),
        (LastOfEquals, False),
        (WithoutOne, False),
        (torch.nn.Identity, False),
    ],
)
def test_ours_stands_only_for_what_it_does_alike(kind: Any, known: bool) -> None:
    assert bool(assigner_roles(kind())) is known


def test_asking_leaves_the_assigner_and_the_random_state() -> None:
    one = tal.PoseTaskAlignedAssigner(torch.ones(5))
    before, random = dict(one.__dict__), torch.get_rng_state()
    assert assigner_roles(one)
    assert one.__dict__ == before
    assert torch.equal(torch.get_rng_state(), random)
