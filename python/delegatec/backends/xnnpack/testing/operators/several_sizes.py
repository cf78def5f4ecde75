# SPDX-License-Identifier: Apache-2.0
"""Functions of values with dynamic batch and length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.backends.common.testing import Function, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_BATCH: Final = torch.export.Dim("batch", min=1, max=6)
_LENGTH: Final = torch.export.Dim("length", min=2, max=40)
_ROWS: Final = floats(1, 5, 6)
_SIZES: Final = ((3, 5), (6, 40), (1, 2), (1, 40), (6, 2))


def _case(function: Function | nn.Module, *inner: tuple[int, ...], **options: Any) -> Case:
    """Returns a case of inputs [batch, length, *inner]."""
    calls = [
        tuple(floats(*outer, *sizes, seed=seed) * 2 for seed, sizes in enumerate(inner)) for outer in _SIZES
    ]
    sizes = [{0: _BATCH, 1: _LENGTH} for _ in inner]
    return Case(function, calls[0], "", sizes, calls[1:], **options)


def _split(x: Tensor, heads: int) -> Tensor:
    """[batch, length, heads * depth] as [batch, heads, length, depth]."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _attention(mask: Callable[[Tensor], Tensor] | None = None, keys: int = 4, **options: Any) -> Case:
    """Attention of four query heads with fewer key heads; the mask is a function of [batch, length]."""

    def call(query: Tensor, key: Tensor, value: Tensor, kept: Tensor) -> Tensor:
        parts = _split(query, 4), _split(key, keys), _split(value, keys)
        limit = None if mask is None else mask(kept)
        mixed = f.scaled_dot_product_attention(*parts, attn_mask=limit, enable_gqa=keys < 4, **options)
        return _joined(mixed) + kept[:, :, None]

    return _case(call, (32,), (8 * keys,), (8 * keys,), ())


def _explicit(keeps: bool, query: Tensor, key: Tensor, value: Tensor, shift: Tensor) -> Tensor:
    """Attention as products and a softmax over the scores that are kept."""
    parts = [_split(each, 4) for each in (query, key, value)]
    scores = parts[0] @ parts[1].mT / 8**0.5
    if keeps:
        scores = scores.masked_fill((shift > 0.5)[:, None, None], -1e4)
    else:
        scores = scores + shift[:, None, None]
    return _joined(scores.softmax(-1) @ parts[2])


def _summed(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention by einsum, whose views have more dimensions."""
    parts = [_split(each, 4) for each in (query, key, value)]
    weights = torch.einsum("bhid,bhjd->bhij", *parts[:2]).softmax(-1)
    return _joined(torch.einsum("bhij,bhjd->bhid", weights, parts[2]))


def _together(x: Tensor) -> Tensor:
    """Computes attention on one tensor with query, key and value."""
    query, key, value = x.view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
    return _joined(f.scaled_dot_product_attention(query, key, value))


def _rotated(x: Tensor) -> Tensor:
    """Computes with each head of an operand."""
    heads = _split(x, 4)
    left, right = heads.chunk(2, -1)
    return _joined(heads * 0.5 + torch.cat([right.neg(), left], -1))


def _quantized_heads(x: Tensor) -> Tensor:
    """Splits and merges dimensions of values that are quantized before and after."""
    heads = _quantized(_split(_quantized(x), 2))
    return _quantized(_joined(heads))


def _quantized(x: Tensor) -> Tensor:
    scale = 0.05, 3, -128, 127, torch.int8
    quantized = torch.ops.quantized_decomposed.quantize_per_tensor(x, *scale)
    found: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(quantized, *scale)
    return found


class _Rows(nn.Module):
    """A layer whose rows are flattened before it and unflattened after it, as in `nn.MultiheadAttention`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.layer(x.exp().flatten(0, 1))
        return rows.view(*x.shape[:2], 6)


class _TurnedRows(_Rows):
    """The same with a weight [in, out], as in GPT-2."""

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.addmm(self.layer.bias, x.exp().flatten(0, 1), self.layer.weight.mT)
        return rows.view(*x.shape[:2], 6)


class _Encoder(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=batch_first)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


CASES: Final[dict[str, Case]] = {
    "sizes-new-dimensions": _case(
        lambda x, y: (x.exp()[:, None, :, None], y.exp()[..., None] * x.neg()[:, :, None, None]), (), (3,)
    ),
    "sizes-a-dimension-less": _case(
        lambda x, y: (x.exp().squeeze(2), y.exp().squeeze((2, 3)), y.neg().squeeze(3)), (1, 3), (1, 1)
    ),
    "sizes-elements": _case(lambda x: (x.exp()[:, :, 1], x.neg()[..., -1].exp()), (3, 4)),
    "sizes-split": _case(lambda x: x.exp().unflatten(2, (3, 4)), (12,)),
    "sizes-split-twice": _case(lambda x: x.exp().unflatten(2, (2, 3, 2)).permute(3, 0, 2, 1, 4), (12,)),
    "sizes-joined": _case(lambda x: x.exp().flatten(2), (3, 4)),
    "sizes-joined-and-split": _case(lambda x: x.exp().view(*x.shape[:2], 2, 6), (3, 4)),
    "sizes-heads": _case(_rotated, (32,)),
    "sizes-rms-norm": _case(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), (12,)),
    "sizes-sums": _case(lambda x: (x.sum(-1), x.exp().mean(3), (x > 0).sum(-1, dtype=torch.float32)), (3, 4)),
    "sizes-quantized": _case(_quantized_heads, (8,), half=None),
    "sizes-rows": _case(_Rows(), (8,), half=2e-2),
    "sizes-rows-turned": _case(_TurnedRows(), (8,), half=2e-2),
    "sizes-attention": _attention(),
    "sizes-attention-at-once": _case(_together, (24,)),
    "sizes-attention-causal": _attention(is_causal=True),
    "sizes-attention-bools": _attention(lambda kept: (kept > -1.0)[:, None, None]),
    "sizes-attention-numbers": _attention(
        lambda kept: torch.where(kept > 0, kept, -torch.inf)[:, None, None]
    ),
    "sizes-attention-scale": _attention(scale=1.0),
    "sizes-attention-shared-heads": _attention(keys=2),
    "sizes-attention-shared-heads-causal": _attention(keys=1, is_causal=True),
    "sizes-attention-shared-heads-bools": _attention(lambda kept: (kept > -1.0)[:, None, None], keys=2),
    "sizes-products": _case(partial(_explicit, False), (32,), (32,), (32,), ()),
    "sizes-products-kept": _case(partial(_explicit, True), (32,), (32,), (32,), ()),
    "sizes-products-einsum": _case(_summed, (32,), (32,), (32,)),
    "sizes-products-of-copies": _case(lambda x: x.tanh() @ _ROWS, (4, 5)),
    "sizes-products-of-rows": _case(lambda x: x.exp() @ _ROWS[0], (5,)),
    "sizes-encoder": _case(_Encoder(True), (16,), half=3e-2),
    "sizes-encoder-length-first": _case(_Encoder(False), (16,), half=3e-2),
}
