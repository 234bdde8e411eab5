"""Max pooling, known by narrow indices.

Autograd keeps the indices of a max pooling as int64, twice the bytes of its float output. A window's maximum is an
element of the input, so with the indices as int16, where a map is small enough for that, both outputs come back by a
copy: nothing is compared again, which for the 5 x 5 windows of SPPF is the larger part of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor


def narrow(indices: Tensor) -> Tensor:
    """Indices (B, C, H', W') into maps that `fits` accepts, as int16."""
    return indices.to(torch.int16)


def fits(x: Tensor) -> bool:
    """True when positions in the maps of `x` (B, C, H, W) fit int16."""
    return x.dim() == 4 and x.size(-1) * x.size(-2) <= torch.iinfo(torch.int16).max


def pooled(x: Tensor, narrow_indices: Tensor) -> Tensor:
    """The pooled values (B, C, H', W'), copied from `x` (B, C, H, W)."""
    found = x.flatten(2).gather(2, narrow_indices.flatten(2).long())
    out = torch.empty_like(narrow_indices, dtype=x.dtype)
    return out.copy_(found.view(narrow_indices.shape))


def widened(narrow_indices: Tensor) -> Tensor:
    """The indices as the pooling put them out, int64."""
    return narrow_indices.long()
