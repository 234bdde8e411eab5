"""Stages selected, and segments laid."""

from __future__ import annotations

import pytest

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.planning import StageFacts, fixed_plan, select_stages

KINDS = ["Conv", "Conv", "C3k2", "Conv", "C3k2", "Upsample", "C3k2", "Detect"]


def facts() -> list[StageFacts]:
    parts = ["backbone"] * 5 + ["neck"] * 2 + ["head"]
    return [
        StageFacts(index=i, kind=k, part=p, convolves=k != "Upsample", is_conv_block=k == "Conv")
        for i, (k, p) in enumerate(zip(KINDS, parts, strict=True))
    ]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("all", range(8)),
        ("backbone", range(5)),
        ("neck", [5, 6]),
        ("head", [7]),
        ("0-2", [0, 1, 2]),
        ("0,2,4", [0, 2, 4]),
        ("C3k2", [2, 4, 6]),
        ("head, 0-1 ,Upsample", [0, 1, 5, 7]),
        ("[0, 1]", [0, 1]),
    ],
)
def test_selection(text: str, indices: list[int]) -> None:
    assert select_stages(text, facts()) == set(indices)


@pytest.mark.parametrize("text", ["99", "-1", "4-2", "C9k9", "0-99", "all,nonsense"])
def test_what_names_no_stage_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        select_stages(text, facts())
    assert f"ckpt_stages={text}" in str(error.value)


def segments(selected: range | list[int], action: str = "full") -> list[list[int]]:
    plan = fixed_plan(facts(), action, selected, ckpt=action, imgsz=64, batch=1)
    runs: list[list[int]] = []
    for stage in plan.planned:
        if stage.opens:
            runs.append([])
        runs[-1].append(stage.index)
        assert stage.closes == (stage.index + 1 >= len(plan.stages) or plan.stages[stage.index + 1].opens)
    return runs


def test_first_two_and_blocks_with_what_follows_share_a_segment() -> None:
    assert segments(range(8)) == [[0, 1], [2], [3, 4], [5], [6], [7]]


def long_facts(*skips: int) -> list[StageFacts]:
    """The backbone of a model of common length."""
    kinds = ["Conv", "Conv", "C3k2", "Conv", "C3k2", *["Conv", "C3k2"] * 4, "Detect"]
    return [
        StageFacts(index=i, kind=k, part="backbone", convolves=True, is_conv_block=k == "Conv", skips=i in skips)
        for i, k in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("skips", "first"),
    [((4, 6), [0, 1, 2, 3]), ((2, 4), [0, 1]), ((1,), [0]), ((3,), [0, 1, 2])],
)
def test_the_first_segment_ends_before_what_is_read_elsewhere(skips: tuple[int, ...], first: list[int]) -> None:
    plan = fixed_plan(long_facts(*skips), "full", range(14), ckpt="full", imgsz=64, batch=1)
    assert [s.index for s in plan.stages][: len(first)] == first
    assert [s.closes for s in plan.stages[: len(first)]] == [False] * (len(first) - 1) + [True]


def test_segments_end_where_the_selection_does() -> None:
    assert segments([1, 2, 4, 6]) == [[1], [2], [4], [6]]


def test_selective_needs_no_joined_segments() -> None:
    assert segments(range(8), "selective") == [[i] for i in range(8)]


def test_what_was_left_out_has_a_reason() -> None:
    plan = fixed_plan(facts(), "full", [0], ckpt="full", imgsz=64, batch=1)
    assert [s.reason for s in plan.stages] == ["", *["not in ckpt_stages"] * 7]
