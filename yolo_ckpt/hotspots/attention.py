"""Fused attention in the host's attention blocks, which make tables of tokens by tokens, several at a time.

The kernels are torch's (FlashAttention, Dao 2023, https://arxiv.org/abs/2307.08691; memory-efficient attention, Rabe
and Staats 2021, https://arxiv.org/abs/2112.05682): they go through the table in tiles and keep one number for each row.
Their sums run in another order, so results differ from stock's by rounding.

What keeps torch from its fused kernels, and what is done about it:

1. Query and key narrower than the value: they are padded with zeros, which add nothing to any product.
2. Tokens along the last dimension: all three are made contiguous with tokens before channels.
3. A simulation: the operator of the device that it stands for is called by its name.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from yolo_ckpt.hotspots.rounding import note
from yolo_ckpt.remat import is_on_cpu

LARGE = 1024  # tokens from which on the tables are large beside everything else in the block

_aten = torch.ops.aten


class _Fused:
    """An attention block that runs fused in training where there are `least_tokens` or more."""

    least_tokens = 0
    training: bool
    fused: Callable[[Tensor], Tensor]

    def forward(self, x: Tensor) -> Tensor:
        """What the original's forward does, up to rounding: (B, C, H, W) to (B, C, H, W)."""
        if self.tokens(x) < self.least_tokens or not (self.training and torch.is_grad_enabled()):
            return super().forward(x)  # type: ignore[misc,no-any-return]
        note(self)
        return self.fused(x)

    def tokens(self, x: Tensor) -> int:
        """Rows of a table."""
        return x.shape[2] * x.shape[3] // getattr(self, "area", 1)


class FusedAttention(_Fused):
    """Attention over all tokens of a map."""

    def fused(self: Any, x: Tensor) -> Tensor:
        """The fused forward."""
        batch, channels, height, width = x.shape
        widths = [self.key_dim, self.key_dim, self.head_dim]
        q, k, v = self.qkv(x).view(batch, self.num_heads, sum(widths), height * width).split(widths, dim=2)
        mixed = _attended(q, k, v, self.scale).reshape(batch, channels, height, width)
        out: Tensor = self.proj(mixed + self.pe(v.reshape(batch, channels, height, width)))
        return out


class FusedAreaAttention(_Fused):
    """Attention within areas of a map."""

    def fused(self: Any, x: Tensor) -> Tensor:
        """The fused forward."""
        batch, _, height, width = x.shape
        tokens = height * width // self.area
        qkv = self.qkv(x).flatten(2).transpose(1, 2).reshape(batch * self.area, tokens, self.all_head_dim * 3)
        heads = qkv.view(-1, tokens, self.num_heads, self.head_dim * 3).permute(0, 2, 3, 1)
        q, k, v = heads.split([self.head_dim] * 3, dim=2)
        shape = (batch, height, width, self.all_head_dim)
        mixed = _attended(q, k, v, self.head_dim**-0.5).permute(0, 3, 1, 2).reshape(shape).permute(0, 3, 1, 2)
        value = v.permute(0, 3, 1, 2).reshape(shape).permute(0, 3, 1, 2).contiguous()
        out: Tensor = self.proj(mixed.contiguous() + self.pe(value))
        return out


class FusedMultihead(_Fused):
    """A layer around an nn.MultiheadAttention, whose table it does not look at: of a map (B, C, H, W), or of tokens
    (T, B, C)."""

    ma: nn.MultiheadAttention

    def fused(self, x: Tensor) -> Tensor:
        """The layer's own forward, with the attention fused inside."""
        with _fused_inside(self.ma):
            return super(_Fused, self).forward(x)  # type: ignore[misc,no-any-return]

    def tokens(self, x: Tensor) -> int:
        """Rows of a table."""
        return x.shape[2] * x.shape[3] if x.dim() == 4 else x.shape[0]


class FusedLargeAttention(FusedAttention):
    """The same, where the table is large."""

    least_tokens = LARGE


class FusedLargeAreaAttention(FusedAreaAttention):
    """The same, where the table is large."""

    least_tokens = LARGE


class FusedLargeMultihead(FusedMultihead):
    """The same, where the table is large."""

    least_tokens = LARGE


@contextlib.contextmanager
def _fused_inside(ma: nn.MultiheadAttention) -> Iterator[None]:
    """Inside, `ma` runs fused, and puts out no table."""
    ma.__dict__["forward"] = functools.partial(_multihead, ma, ma.forward)
    try:
        yield
    finally:
        del ma.__dict__["forward"]


def _multihead(ma: Any, stock: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Any:
    """`ma(query, key, value)`; what is not a plain attention of trained projections is `stock`."""
    plain = ma._qkv_same_embed_dim and ma.bias_k is None and not ma.add_zero_attn and not ma.dropout
    if not plain or query.dim() != 3 or any(given.get(name) is not None for name in ("attn_mask", "key_padding_mask")):
        return stock(query, key, value, **given)
    weights = ma.in_proj_weight.chunk(3)
    biases = (None,) * 3 if ma.in_proj_bias is None else ma.in_proj_bias.chunk(3)
    order = (0, 2, 1, 3) if ma.batch_first else (1, 2, 0, 3)  # to (B, heads, T, channels)
    q, k, v = (
        functional.linear(x, w, b).unflatten(-1, (ma.num_heads, -1)).permute(order).contiguous()
        for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    mixed = _kernel(q, k, v, ma.head_dim**-0.5)
    back = (0, 2, 1, 3) if ma.batch_first else (2, 0, 1, 3)
    return ma.out_proj(mixed.permute(back).flatten(2)), None


def _attended(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """`v @ softmax(scale * q.T @ k).T` for each head, all (B, heads, channels, tokens); `q` and `k` may have fewer
    channels."""
    missing = v.shape[2] - q.shape[2]
    q, k = (functional.pad(t.transpose(-2, -1), (0, missing)).contiguous() for t in (q, k))
    return _kernel(q, k, v.transpose(-2, -1).contiguous(), scale).transpose(-2, -1)


def _kernel(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Fused attention (B, heads, tokens, channels); never the composite of products and a softmax."""
    if is_on_cpu(q):
        return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, scale=scale)[0]  # type: ignore[no-any-return]
    if q.is_meta and q.dtype is torch.float32:
        return _aten._scaled_dot_product_efficient_attention(q, k, v, None, True, scale=scale)[0]  # type: ignore[no-any-return]
    if q.is_meta:
        return _aten._scaled_dot_product_flash_attention(q, k, v, scale=scale)[0]  # type: ignore[no-any-return]
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        return functional.scaled_dot_product_attention(q, k, v, scale=scale)
