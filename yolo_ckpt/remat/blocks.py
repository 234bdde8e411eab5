"""Blocks that end in a convolution of a concatenation, letting go of the parts, and of the concatenation itself, as
soon as the next operator has read them.

In the stock forward both stay alive, as local variables and as arguments of calls, until the block returns: at full
resolution they are the largest maps of a model beside the convolution's output and its normalised copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from yolo_ckpt.remat.conv import conv_block_forward
from yolo_ckpt.remat.fused import hooked


def _chunked(self: Any, x: Any) -> Any:
    y = list(self.cv1(x).chunk(2, 1))
    y.extend(m(y[-1]) for m in self.m)
    return self.cv2(torch.cat(y, 1))


def _two_ways(self: Any, x: Any) -> Any:
    return self.cv3(torch.cat((self.m(self.cv1(x)), self.cv2(x)), 1))


def _chunked_forward(self: Any, x: Tensor) -> Tensor:
    parts = list(self.cv1(x).chunk(2, 1))
    del x
    for module in self.m:
        parts.append(module(parts[-1]))
    return _of_joined(self.cv2, parts)


def _two_ways_forward(self: Any, x: Tensor) -> Tensor:
    parts = [self.m(self.cv1(x)), self.cv2(x)]
    del x
    return _of_joined(self.cv3, parts)


def _of_joined(block: Any, parts: list[Tensor]) -> Tensor:
    """`block(cat(parts))`; `parts` is emptied."""
    box = [torch.cat(parts, 1)]
    parts.clear()
    out = None if hooked(block) else conv_block_forward(block, box)
    return block(box.pop()) if out is None else out


def _concat(self: Any, x: Any) -> Any:
    return torch.cat(x, self.d)


@functools.cache
def is_concat(kind: Any) -> bool:
    """True when the forward of the class `kind` does nothing but concatenate its inputs."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    return code is not None and _same(code, _concat.__code__)


_KNOWN = ((_chunked, _chunked_forward), (_two_ways, _two_ways_forward))


@functools.cache
def joined_forward(kind: Any) -> Callable[[Any, Tensor], Tensor] | None:
    """The forward that stands for that of the class `kind`, where it is, instruction for instruction, a known one."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    return next((ours for known, ours in _KNOWN if code is not None and _same(code, known.__code__)), None)


def _same(code: CodeType, known: CodeType) -> bool:
    """True for the same instructions on the same names and constants. Strings do not count: in what is known here they
    are docstrings and names of inner functions alone."""
    if (code.co_code, code.co_names, code.co_argcount) != (known.co_code, known.co_names, known.co_argcount):
        return False
    if _constants(code) != _constants(known):
        return False
    inner = ([c for c in k.co_consts if isinstance(c, CodeType)] for k in (code, known))
    return all(_same(*pair) for pair in zip(*inner, strict=True))


def _constants(code: CodeType) -> list[object]:
    return [c for c in code.co_consts if not isinstance(c, (CodeType, str, type(None)))]
