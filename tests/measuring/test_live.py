"""Counting storages that are alive."""

from __future__ import annotations

import torch

from yolo_ckpt.measuring import LiveBytes, bytes_of, tensors_in


def test_storages_count_once_from_birth_to_death() -> None:
    with LiveBytes() as live:
        a = torch.zeros(1000)
        view = a[10:].view(-1, 2)
        assert live.current_bytes == 4000
        b = a + 1
        assert live.current_bytes == 8000
        del a
        assert live.current_bytes == 8000  # the view keeps the storage
        del view, b
        assert live.current_bytes == 0
    assert live.peak_bytes == 8000


def test_what_was_there_before_counts_when_it_is_added() -> None:
    before = torch.zeros(100)
    with LiveBytes() as live:
        live.add([before, before[:50]])
        before.add_(1)
        assert live.current_bytes == 400


def test_meta_tensors_count_without_memory() -> None:
    with LiveBytes() as live:
        kept = torch.empty(2**30, device="meta")
    assert live.peak_bytes == 2**32
    assert kept.numel() == 2**30


def test_bytes_of_distinct_storages() -> None:
    a = torch.zeros(10)
    assert bytes_of([a, a[2:], torch.zeros(5)]) == 60
    found = tensors_in({"x": [a, (a, 3)], "y": None})
    assert len(found) == 2
    assert all(t is a for t in found)
