"""What the recorder does with each ATen operator: decided once per operator, from short lists and its schema.

An operator in none of the lists is kept: what it puts out stays in memory as without a plan. Random operators are
in none of them, so they are never run twice.
"""

from __future__ import annotations

import enum
from typing import Any

import torch


class Kind(enum.Enum):
    """How an operator's output is treated."""

    VIEW = enum.auto()  # shares its input's storage: nothing to record
    CHEAP = enum.auto()  # recomputed whenever it is needed
    DEAR = enum.auto()  # held in selective, recomputed once in full
    POOL = enum.auto()  # max pooling: values and indices from narrow indices
    NORM = enum.auto()  # training-mode batch normalisation: cheap, with the batch statistics it had
    WRITE = enum.auto()  # changes an input in place
    KEEP = enum.auto()  # unknown or random: as without a plan


# Elementwise arithmetic, copies, pooling, resampling and reductions: bandwidth-bound, and deterministic.
CHEAP = frozenset(
    """
    add sub rsub mul div neg abs exp exp2 expm1 log log1p log2 sqrt rsqrt reciprocal pow square sign sgn sin cos tan
    tanh atan atan2 erf sigmoid silu relu hardtanh hardswish hardsigmoid leaky_relu elu celu gelu mish softplus
    log_sigmoid_forward glu threshold clamp clamp_min clamp_max maximum minimum where lerp addcmul addcdiv floor
    ceil round eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not masked_fill
    cat stack clone _to_copy repeat constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d upsample_nearest1d upsample_nearest2d _upsample_nearest_exact2d upsample_bilinear2d
    upsample_bicubic2d pixel_shuffle pixel_unshuffle roll flip tril triu index index_select gather avg_pool2d
    _adaptive_avg_pool2d mean sum amax amin max min _softmax _log_softmax native_layer_norm native_group_norm
    linalg_vector_norm
    """.split()  # noqa: SIM905 (a list of 100 lines reads worse)
)

# Bound by arithmetic, or by tokens squared.
DEAR = frozenset(
    """
    convolution mm bmm addmm baddbmm linear grid_sampler_2d _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention
    """.split()  # noqa: SIM905 (a list of 100 lines reads worse)
)

NORM = frozenset({"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm"})

_MM = torch.ops.aten.mm.default
_BMM = torch.ops.aten.bmm.default

_kinds: dict[Any, Kind] = {}


def kind_of(op: Any) -> Kind:
    """The kind of an operator overload, remembered."""
    kind = _kinds.get(op)
    if kind is None:
        kind = _kinds[op] = _classify(op)
    return kind


def _classify(op: Any) -> Kind:
    schema = op._schema
    name = schema.name.removeprefix("aten::")
    if name == "max_pool2d_with_indices":
        return Kind.POOL
    if name in NORM:
        return Kind.NORM
    if schema.is_mutable:
        return Kind.WRITE
    if any(r.alias_info is not None for r in schema.returns) or name in (
        "_unsafe_view",
        "_reshape_alias",
        "lift_fresh",
    ):
        return Kind.VIEW
    if torch.Tag.nondeterministic_seeded in op.tags:
        # fused attention carries the tag for its dropout; at a probability of zero it draws nothing
        return Kind.DEAR if name in DEAR else Kind.KEEP
    return Kind.CHEAP if name in CHEAP else Kind.DEAR if name in DEAR else Kind.KEEP


def is_dear(kind: Kind, op: Any, args: tuple[Any, ...]) -> bool:
    """True when this call's output is held or recomputed once, not each time it is needed."""
    return kind is Kind.DEAR and not _expands(op, args)


def _expands(op: Any, args: tuple[Any, ...]) -> bool:
    """True for a product that is larger than its factors together (attention's tokens by tokens): holding the factors,
    which are needed anyway, is less, and each of its elements takes few operations."""
    if op is not _MM and op is not _BMM:
        return False
    a, b = args[0], args[1]
    made = a.size(-2) * b.size(-1) * (a.size(0) if op is _BMM else 1)
    return bool(made > a.numel() + b.numel())


def draws_random(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when a dear operator uses dropout in this call."""
    for i, arg in enumerate(op._schema.arguments):
        if arg.name == "dropout_p":
            return bool(kwargs.get("dropout_p", args[i] if i < len(args) else arg.default_value))
    return False


def replays_write(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when an in-place call may be run again on a copy: it changes its first argument and nothing else, draws no
    random numbers, and leaves size and storage as they are."""
    name = op._schema.name.removeprefix("aten::")
    changed = written(op, args, kwargs)
    return (
        len(changed) == 1
        and changed[0] is args[0]
        and name.endswith("_")
        and name not in ("set_", "resize_", "resize_as_", "t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_")
        and torch.Tag.nondeterministic_seeded not in op.tags
    )


def written(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that this call changes in place."""
    found: list[Any] = []
    for i, arg in enumerate(op._schema.arguments):
        if arg.alias_info is not None and arg.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(arg.name)
            found += given if isinstance(given, (list, tuple)) else [given]
    return [t for t in found if isinstance(t, torch.Tensor)]
