"""The tensors that are alive at the peak."""

from __future__ import annotations

import torch
from torch import nn

import yolo_ckpt
from tests.conftest import toy
from yolo_ckpt.measuring.ledger import Ledger


def test_what_is_alive_at_the_peak_adds_up_to_it() -> None:
    model = toy()
    found = yolo_ckpt.measure(model, imgsz=64, batch=2)
    assert sum(t.nbytes for t in found.at_peak) == found.peak_bytes
    assert [t.nbytes for t in found.at_peak] == sorted((t.nbytes for t in found.at_peak), reverse=True)
    given = [t for t in found.at_peak if t.operator == "given"]
    assert (2, 3, 64, 64) in [t.shape for t in given]
    assert {t.phase for t in given} == {"before"}
    assert {t.phase for t in found.at_peak if t.operator == "convolution"} == {"forward"}
    assert any(t.phase == "backward" and t.stage >= 0 for t in found.at_peak)


def test_what_died_before_the_peak_or_was_born_after_it_is_not_there() -> None:
    with Ledger() as live:
        live.mark("forward", 3)
        early = torch.zeros(100)
        del early
        kept = torch.ones(50)
        large = torch.full((1000,), 2.0)
        del large
        late = torch.eye(5)
    assert [(t.operator, t.stage, t.shape) for t in live.at_peak()] == [("full", 3, (1000,)), ("ones", 3, (50,))]
    assert kept.numel() + late.numel() == 75


def test_stages_of_both_passes_are_told_apart() -> None:
    stages = nn.Sequential(*(nn.Conv2d(3, 3, 1) for _ in range(3)))
    from yolo_ckpt.measuring import measure_step

    found = measure_step(stages, list(stages), torch.rand(1, 3, 8, 8))
    made = {(t.phase, t.stage) for t in found.at_peak if t.operator == "convolution"}
    assert made <= {("forward", i) for i in range(3)}
