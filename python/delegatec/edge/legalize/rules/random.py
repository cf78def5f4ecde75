# SPDX-License-Identifier: Apache-2.0
"""Random numbers of many distributions by two kernels: uniform in [0, 1), and normal."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.arguments import broadcast
from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten


def _uniform_like(x: Tensor) -> Tensor:
    """Returns uniform float32 numbers for any dtype of `x`."""
    return torch.rand(x.shape)


def _positive_like(x: Tensor) -> Tensor:
    """Returns uniform numbers in (0, 1], so that logarithms are finite."""
    return 1 - _uniform_like(x)


def _rand_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _uniform_like(x).to(dtype or x.dtype)


def _randn_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.randn(x.shape).to(dtype or x.dtype)


def _uniform(x: Tensor, low: float = 0, high: float = 1, **_: Any) -> Tensor:
    return (_uniform_like(x) * (high - low) + low).to(x.dtype)


def _normal(x: Tensor, mean: float = 0, std: float = 1, **_: Any) -> Tensor:
    return (torch.randn(x.shape) * std + mean).to(x.dtype)


def _normal_of(
    mean: Any, std: Any = 1.0, size: Any = None, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    """Returns normal numbers; means and deviations are tensors or scalars."""
    tensors = [each for each in (mean, std) if isinstance(each, Tensor)]
    shape = broadcast(*(each.shape for each in tensors)) if tensors else size
    if tensors:
        dtype = tensors[0].dtype
    result: Tensor = (torch.randn(shape).to(dtype or torch.get_default_dtype()) * std) + mean
    return result


def _log_normal(x: Tensor, mean: float = 1, std: float = 2, **_: Any) -> Tensor:
    return torch.exp(torch.randn(x.shape) * std + mean).to(x.dtype)


def _exponential(x: Tensor, lambd: float = 1, **_: Any) -> Tensor:
    return (-torch.log(_positive_like(x)) / lambd).to(x.dtype)


def _cauchy(x: Tensor, median: float = 0, sigma: float = 1, **_: Any) -> Tensor:
    return (torch.tan((_uniform_like(x) - 0.5) * math.pi) * sigma + median).to(x.dtype)


def _geometric(x: Tensor, p: float, **_: Any) -> Tensor:
    return torch.ceil(torch.log(_positive_like(x)) / math.log1p(-p)).clamp(min=1).to(x.dtype)


def _bernoulli(x: Tensor, **_: Any) -> Tensor:
    return (_uniform_like(x) < x).to(x.dtype)


def _bernoulli_p(x: Tensor, p: float = 0.5, **_: Any) -> Tensor:
    return (_uniform_like(x) < p).to(x.dtype)


def _integers(low: int, high: int, size: Any, dtype: torch.dtype) -> Tensor:
    # float32 has 24 bits: over a wider range not every integer occurs
    drawn = (torch.rand(size) * (high - low)).floor().clamp(max=high - low - 1)
    return drawn.to(dtype) + low


def _randint(high: int, size: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _integers(0, high, size, dtype or torch.int64)


def _randint_low(low: int, high: int, size: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _integers(low, high, size, dtype or torch.int64)


def _randint_like(x: Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return _integers(0, high, x.shape, dtype or x.dtype)


def _randint_like_low(
    x: Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return _integers(low, high, x.shape, dtype or x.dtype)


def _randperm(n: int, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return torch.topk(torch.rand([n]), n).indices.to(dtype or torch.int64)


def _multinomial(weights: Tensor, num_samples: int, replacement: bool = False, **_: Any) -> Tensor:
    """Samples by exponential clocks: without replacement the first ones; with it, one clock per sample."""
    if replacement:
        rates = weights.unsqueeze(-2).expand(*weights.shape[:-1], num_samples, weights.shape[-1])
        return torch.argmax(rates / -torch.log(_positive_like(rates)), -1)
    return torch.topk(weights / -torch.log(_positive_like(weights)), num_samples).indices


FUNCTIONS: FunctionTable = {
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli_p,
    aten.cauchy.default: _cauchy,
    aten.exponential.default: _exponential,
    aten.geometric.default: _geometric,
    aten.log_normal.default: _log_normal,
    aten.multinomial.default: _multinomial,
    aten.normal.Tensor_Tensor: _normal_of,
    aten.normal.Tensor_float: _normal_of,
    aten.normal.float_Tensor: _normal_of,
    aten.normal.float_float: _normal_of,
    aten.normal_functional.default: _normal,
    aten.rand_like.default: _rand_like,
    aten.randint.default: _randint,
    aten.randint.low: _randint_low,
    aten.randint_like.default: _randint_like,
    aten.randint_like.low_dtype: _randint_like_low,
    aten.randn_like.default: _randn_like,
    aten.randperm.default: _randperm,
    aten.uniform.default: _uniform,
}
