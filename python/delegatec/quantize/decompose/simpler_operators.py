# SPDX-License-Identifier: Apache-2.0
"""Operators that are computed by simpler ones before observers, unlike in torch's own decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

aten = torch.ops.aten


def _divide(x: Any, y: Any) -> Any:
    """Divides by a tensor as a product with its reciprocal, for floats."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return NotImplemented
    if not (x.is_floating_point() and y.is_floating_point() and y.dim()):
        return NotImplemented
    return x * torch.reciprocal(y)


def _conv2d_padding(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: str = "valid",
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    spatial = weight.dim() - 2
    dilation = [*dilation] * (spatial // len(dilation))
    totals = [spacing * (size - 1) for spacing, size in zip(dilation, weight.shape[2:], strict=True)]
    totals = totals if padding == "same" else [0] * spatial
    if any(total % 2 for total in totals):
        sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        x, totals = F.pad(x, sides), [0] * spatial
    convolution: Any = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    result: Tensor = convolution(x, weight, bias, stride, [total // 2 for total in totals], dilation, groups)
    return result


def _lerp(x: Tensor, y: Tensor, weight: Any) -> Any:
    """Interpolates by one formula: quantized weights may choose that of two which samples gave no range."""
    return x + (y - x) * weight if x.dtype == torch.float32 else NotImplemented


def _batch_matmul_add(bias: Tensor, x: Tensor, y: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.bmm(x, y)
    return (bias if beta == 1 else bias * beta) + (product if alpha == 1 else product * alpha)


def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads circularly by concatenations; torch's decomposition starts with uninitialized memory."""
    count = len(pad) // 2
    result: Tensor
    if mode == "constant":
        result = aten.constant_pad_nd.default(x, pad, value or 0)
        return result
    if mode in ("reflect", "replicate"):
        kind = "reflection" if mode == "reflect" else "replication"
        result = getattr(aten, f"{kind}_pad{count}d").default(x, pad)
        return result
    if min(pad) < 0:
        result = aten._pad_circular.default(x, pad)
        return result
    for position, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = x.dim() - 1 - position
        size = x.shape[dim]
        front = [x.narrow(dim, size - before, before)] if before else []
        back = [x.narrow(dim, 0, after)] if after else []
        x = torch.cat([*front, x, *back], dim)
    return x


def _binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    """Bounds logarithms by clamps: a constant of -100 would have one range with them."""
    if x.dtype != torch.float32:
        return NotImplemented
    yes, no = (torch.clamp_min(each, -100) for each in (torch.log(x), torch.log1p(-x)))
    loss = (target - 1) * no - target * yes
    return _reduced(loss if weight is None else loss * weight, reduction)


def _soft_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """Keeps the exponential inside of softplus, as no scale represents its range."""
    if x.dtype != torch.float32:
        return NotImplemented
    return _reduced(F.softplus(-(target * x)), reduction)


def _huber_loss(x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Any:
    """Computes the square of bounded differences only: the range of all squares would be too wide."""
    if x.dtype != torch.float32:
        return NotImplemented
    size = torch.abs(x - target)
    bounded = torch.clamp_max(size, delta)
    return _reduced(bounded * (size - bounded * 0.5), reduction)


def _smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Any:
    if x.dtype != torch.float32:
        return NotImplemented
    if beta == 0:
        return _reduced(torch.abs(x - target), reduction)
    loss = _huber_loss(x, target, 0, beta)
    return _reduced(loss if beta == 1 else loss * (1 / beta), reduction)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


def _zeros(size: Sequence[int], **keywords: Any) -> Tensor:
    """Initializes memory, which observers read even if it is overwritten."""
    keywords.pop("memory_format", None)
    return torch.zeros(size, **keywords)


def _new_zeros(x: Tensor, size: Sequence[int], **keywords: Any) -> Tensor:
    return x.new_zeros(size, **keywords)


def _nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replaces NaN, and infinities by given numbers only: the range of others would be that of float32."""
    for is_replaced, number in (
        (torch.isnan(x), nan or 0.0),
        (x == math.inf, posinf),
        (x == -math.inf, neginf),
    ):
        if number is not None:
            x = torch.masked_fill(x, is_replaced, number)
    return x


def _rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, _: Any = None
) -> Any:
    return NotImplemented if training else F.leaky_relu(x, (lower + upper) / 2)


SIMPLER: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten.div.Tensor: _divide,
    aten.conv1d.padding: _conv2d_padding,
    aten.conv2d.padding: _conv2d_padding,
    aten.conv3d.padding: _conv2d_padding,
    aten.rrelu.default: _rrelu,
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.baddbmm.default: _batch_matmul_add,
    aten.pad.default: _pad,
    aten.binary_cross_entropy.default: _binary_cross_entropy,
    aten.soft_margin_loss.default: _soft_margin_loss,
    aten.huber_loss.default: _huber_loss,
    aten.smooth_l1_loss.default: _smooth_l1_loss,
    aten.empty.memory_format: _zeros,
    aten.new_empty.default: _new_zeros,
    aten.empty_like.default: torch.zeros_like,
    aten.nan_to_num.default: _nan_to_num,
}
