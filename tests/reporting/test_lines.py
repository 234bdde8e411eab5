"""What a plan says of itself."""

from __future__ import annotations

from yolo_ckpt.plan import Plan, StagePlan
from yolo_ckpt.reporting import plan_lines
from yolo_ckpt.reporting.lines import forecast_line, ranges


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


def test_forecast_and_measurement() -> None:
    """A warning where more was needed. Before its first step the optimizer holds nothing yet."""
    mib = 1 << 20
    assert forecast_line(100 * mib, 94 * mib) == ("peak of the first epoch 94 MiB, forecast 100 MiB (-6.0%)", False)
    line, warning = forecast_line(100 * mib, 80 * mib, 19 * mib)
    assert line == (
        "peak of the first epoch 80 MiB and 19 MiB from the optimizer's first step on, forecast 100 MiB (-1.0%)"
    )
    assert not warning
    line, warning = forecast_line(100 * mib, 106 * mib)
    assert "(+6.0%); plan with a smaller ckpt_budget=" in line
    assert warning
