"""Comparing states bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from yolo_ckpt.measuring import first_difference


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (torch.ones(3), torch.ones(3) + 1e-7, "3 of 3 elements differ"),
        (torch.zeros(2), -torch.zeros(2), "0 of 2 elements differ"),  # the sign of zero is a bit
        (torch.ones(2), torch.ones(3), r"\(2,\)"),
        (torch.ones(2), torch.ones(2).double(), "float64"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2"),
    ],
)
def test_a_difference_is_described(a: Tensor, b: Tensor, says: str) -> None:
    import re

    found = first_difference({"same": a, "x": a}, {"same": a, "x": b})
    assert found is not None
    assert found.startswith("x: ")
    assert re.search(says, found)


def test_equal_states() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert (
        first_difference({"x": nan, "y": torch.tensor([True])}, {"x": nan.clone(), "y": torch.tensor([True])}) is None
    )


def test_missing_tensors() -> None:
    assert "y is only in one" in str(first_difference({"x": torch.ones(1), "y": torch.ones(1)}, {"x": torch.ones(1)}))
