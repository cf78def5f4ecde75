# SPDX-License-Identifier: Apache-2.0
"""Operators that quantization computes by simpler ones, with noise in each value.

The values inside are quantized, which the noise of a result does not model. A quotient `x / x` is 1 for
any noise of the operand, but its reciprocal has another range. In a norm, the variance and its root have
the range of all calls, in which that of a quiet one has few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import torch
from torch import Tensor

aten = torch.ops.aten

# Noise in quantization steps of either sign: a rounding has half of one.
_STEPS: Final = 1.0


class Noise(Protocol):
    """Adds noise to a value; in the range of the value if `is_bounded`."""

    def __call__(self, value: Tensor, *, steps: float = ..., is_bounded: bool = ...) -> Tensor: ...


def parts_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Tensor] | None:
    """Returns a function that computes the first result of a call by parts; None if the call is one part."""
    found = _PARTS.get(func)
    if found is _deviation:
        found = partial(_deviation, **kwargs)
    elif kwargs:
        return None
    tensors = [each for each in args if isinstance(each, Tensor)]
    if found is None or any(each.dtype != torch.float32 or not each.numel() for each in tensors):
        return None
    if found is _quotient and (len(tensors) < 2 or not tensors[1].dim()):
        return None
    if found is _vector_norm and (*args, 2)[1] not in (2, None):
        return None
    if found is _batch_norm and not args[5]:
        return None  # a factor and a term for each channel
    return found


def _quotient(noise: Noise, x: Tensor, y: Tensor) -> Tensor:
    """Computes the product with a reciprocal, which is finite where a quantized divisor is zero."""
    inverse = noise(torch.reciprocal(y), steps=_STEPS, is_bounded=True)
    return noise(x * inverse, steps=_STEPS)


def _standardized(noise: Noise, x: Tensor, dims: list[int], epsilon: float) -> Tensor:
    def part(value: Tensor) -> Tensor:
        return noise(value, steps=_STEPS)

    centered = part(x - part(x.mean(dims, keepdim=True)))
    variance = part(part(part(centered * centered).mean(dims, keepdim=True)).clamp_min(0) + epsilon)
    factor = noise(torch.rsqrt(variance.clamp_min(0)), steps=_STEPS, is_bounded=True)
    return part(centered * factor)


def _scaled(noise: Noise, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else noise(x * weight, steps=_STEPS)
    return x if bias is None else noise(x + bias, steps=_STEPS)


def _layer_norm(
    noise: Noise, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> Tensor:
    found = _standardized(noise, x, [*range(-len(shape), 0)], epsilon)
    return _scaled(noise, found, weight, bias)


def _group_norm(
    noise: Noise,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    size: int,
    channels: int,
    _elements: int,
    groups: int,
    epsilon: float,
) -> Tensor:
    found = _standardized(noise, x.reshape(size, groups, -1), [-1], epsilon).reshape(x.shape)
    shape = [channels, *[1] * (x.dim() - 2)]
    return _scaled(noise, found, *(part if part is None else part.reshape(shape) for part in (weight, bias)))


def _batch_norm(
    noise: Noise,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    _mean: Tensor | None,
    _variance: Tensor | None,
    _is_training: bool,
    _momentum: float,
    epsilon: float,
) -> Tensor:
    """Computes the norm by the mean and the variance of the operand, as instance norm does."""
    found = _standardized(noise, x, [0, *range(2, x.dim())], epsilon)
    shape = [-1, *[1] * (x.dim() - 2)]
    return _scaled(noise, found, *(part if part is None else part.reshape(shape) for part in (weight, bias)))


def _vector_norm(
    noise: Noise, x: Tensor, order: float = 2, dims: Sequence[int] | None = None, keepdim: bool = False
) -> Tensor:
    """Computes the root of a sum of squares, of which those of small values are zero."""
    squares = noise(x * x, steps=_STEPS)
    total = noise(squares.sum([*dims] if dims is not None else [*range(x.dim())], keepdim), steps=_STEPS)
    return noise(total.clamp_min(0).sqrt(), steps=_STEPS)


def _deviation(
    noise: Noise,
    x: Tensor,
    dims: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    """Computes the root of a variance, in which small deviations are zero."""
    variance = noise(torch.var(x, dims, correction=correction, keepdim=keepdim), steps=_STEPS)
    return noise(variance.clamp_min(0).sqrt(), steps=_STEPS)


_PARTS: Final[dict[Any, Callable[..., Tensor]]] = {
    aten.div.Tensor: _quotient,
    aten.div_.Tensor: _quotient,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.norm.ScalarOpt_dim: _vector_norm,
    aten.native_batch_norm.default: _batch_norm,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten.std.correction: _deviation,
}
