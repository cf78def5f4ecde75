# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions without a kernel, in terms of those with one; NaN, infinities and -0 included."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import Function, FunctionTable

aten = torch.ops.aten


def _promoted(x: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    dtype = torch.result_type(x, y)
    other = y if isinstance(y, Tensor) else torch.full([], y, dtype=dtype)
    return x.to(dtype), other.to(dtype)


def _ignoring_nan(choose: Function) -> Function:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x, y = _promoted(x, y)
        if not x.is_floating_point():
            result: Tensor = choose(x, y)
            return result
        return torch.where(torch.isnan(x), y, torch.where(torch.isnan(y), x, choose(x, y)))

    return function


def _signbit(x: Tensor) -> Tensor:
    """Whether a number is negative, including -0; NaN is positive, as no kernel returns its sign."""
    if x.dtype in (torch.bool, torch.uint8):
        return torch.zeros_like(x, dtype=torch.bool)
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def _copysign(x: Tensor, y: Any) -> Tensor:
    if not isinstance(y, Tensor):
        magnitude = _as_float(x).abs()
        return -magnitude if math.copysign(1.0, y) < 0 else magnitude
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    magnitude = x.to(dtype).abs()
    return torch.where(_signbit(y), -magnitude, magnitude)


def _as_float(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    """Computes the hypotenuse without overflow; infinite if an operand is, even for NaN."""
    x, y = _promoted(x, y)
    x, y = x.abs(), y.abs()
    longer, shorter = torch.maximum(x, y), torch.minimum(x, y)
    ratio = shorter / torch.where(longer == 0, 1.0, longer)
    result = longer * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), math.inf, result)


def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, _as_float(x))


def _angle(x: Tensor) -> Any:
    """Returns the angle of a real number: pi if negative, NaN for NaN, else 0."""
    if x.is_complex():
        return NotImplemented
    x = _as_float(x)
    return torch.where(torch.isnan(x), x, (x < 0).to(x.dtype) * math.pi)


def _round_decimals(x: Tensor, *, decimals: int) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    scale, wide = 10.0 ** abs(decimals), x.float() if x.itemsize == 2 else x  # as the kernel of ATen
    rounded = torch.round(wide * scale) / scale if decimals >= 0 else torch.round(wide / scale) * scale
    return rounded.to(x.dtype)


def _addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = torch.bmm(batch1, batch2).sum(0, dtype=x.dtype)
    if not x.is_floating_point() and not x.is_complex():
        alpha, beta = int(alpha), int(beta)
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled


def _trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """Sums the product of three unsqueezed tensors; keeps the dtype of small integers."""
    for dim in expand1:
        a = a.unsqueeze(dim)
    for dim in expand2:
        b = b.unsqueeze(dim)
    for dim in expand3:
        c = c.unsqueeze(dim)
    product = a * b * c
    return product.sum(sumdim, dtype=product.dtype)


FUNCTIONS: FunctionTable = {
    aten._trilinear.default: _trilinear,
    aten.addbmm.default: _addbmm,
    aten.angle.default: _angle,
    aten.copysign.Scalar: _copysign,
    aten.copysign.Tensor: _copysign,
    aten.exp2.default: _exp2,
    aten.fmax.default: _ignoring_nan(torch.maximum),
    aten.fmin.default: _ignoring_nan(torch.minimum),
    aten.hypot.default: _hypot,
    aten.round.decimals: _round_decimals,
    aten.signbit.default: _signbit,
}
