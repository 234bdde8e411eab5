"""Autocast for simulated steps: torch has none for the meta device.

The same casts in the same places as on CUDA (torch's list of operators, "CUDA Op-Specific Behavior"): to half precision
before products, to float32 before what would lose too much, each parameter once. It works on the calls that Python
code makes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

_HALF = frozenset(
    """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul __matmul__ __rmatmul__ mm bmm
    addmm addbmm baddbmm addmv addr mv chain_matmul einsum prelu scaled_dot_product_attention
    """.split()  # noqa: SIM905 (a list of 20 lines reads worse)
)
_FLOAT = frozenset(
    """
    __pow__ __rdiv__ __rpow__ __rtruediv__ acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh
    tan pow softplus layer_norm group_norm norm cosine_similarity nll_loss cross_entropy kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss binary_cross_entropy_with_logits cdist pdist dist renorm logsumexp
    """.split()  # noqa: SIM905 (a list of 40 lines reads worse)
)
_INTO_FLOAT = frozenset(["prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum"])  # without a float32 copy
_SOFTMAX = {"softmax": torch.ops.aten._softmax.default, "log_softmax": torch.ops.aten._log_softmax.default}


class MetaAutocast(TorchFunctionMode):
    """Context in which meta tensors are cast to `dtype` (float16 or bfloat16) as autocast does on CUDA."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self._parameters: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _INTO_FLOAT and (kwargs or {}).get("dtype") is None and _is_half(args[0]):
            return _into_float(func, name, args, kwargs or {})
        cast = self._half if name in _HALF else _float if name in _FLOAT else None
        if cast is None:
            return func(*args, **(kwargs or {}))
        return func(*tree_map(cast, args), **tree_map(cast, kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        self._parameters.clear()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def _half(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.is_meta or leaf.dtype is not torch.float32:
            return leaf
        if not (leaf.is_leaf and leaf.requires_grad):
            return leaf.to(self.dtype)
        cached = self._parameters.get(id(leaf))
        if cached is None:
            cached = self._parameters[id(leaf)] = leaf.to(self.dtype)
        return cached


def _float(leaf: Any) -> Any:
    return leaf.float() if _is_half(leaf) else leaf


def _is_half(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_meta and leaf.dtype in (torch.float16, torch.bfloat16)


def _into_float(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """An operator that reads half precision and puts out float32; softmax has a kernel for that from float16 alone."""
    if name in _SOFTMAX and args[0].dtype is torch.float16:
        dim = kwargs["dim"] if "dim" in kwargs else args[1]
        return _SOFTMAX[name](args[0], dim, True)
    return func(*args, **{**kwargs, "dtype": torch.float32})
