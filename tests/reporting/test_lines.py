"""What a plan says of itself."""

from __future__ import annotations

from yolo_ckpt.plan import Plan, StagePlan
from yolo_ckpt.reporting import plan_lines
from yolo_ckpt.reporting.lines import ranges


def test_ranges() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""


def test_three_lines() -> None:
    stages = (
        StagePlan(index=0, kind="Conv", action="full", closes=False),
        StagePlan(index=1, kind="Conv", action="full", opens=False),
        StagePlan(index=2, kind="Detect", reason="it is compiled"),
    )
    first, second, third = plan_lines(Plan(ckpt="full", stages=stages, imgsz=640, batch=2))
    assert first.startswith("ckpt=full at imgsz=640, batch=2: full: ")
    assert second == "stages 0-1 of 3, in 1 segments"
    assert third == "left as it is: 2 (it is compiled)"
