# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, products, maxima and log-sums as parallel scans of logarithmic depth.

Step k combines each element with that 2**k positions before it, which doubles the number of elements that it
covers. A cumulative sum of logarithms would be one kernel, but wrong for 0, negative values and integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, RuleTable
from delegatec.edge.legalize.rules.dynamic import padded
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import largest

aten = torch.ops.aten


def _scan(
    start: Sequence[Tensor],
    dim: int,
    neutral: Sequence[Any],
    combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]],
) -> Any:
    """Combines each element with all before it along `dim`."""
    values = list(start)
    if values[0].dim() == 0:
        return values
    dim = dim % values[0].dim()
    size = values[0].shape[dim]
    most = largest(size)
    if most is None:
        return NotImplemented
    shift = 1
    while shift < most:
        before = [
            padded(value, dim, shift, 0, fill).narrow(dim, 0, size)
            for value, fill in zip(values, neutral, strict=True)
        ]
        values = combine(before, values)
        shift *= 2
    return values


def _sum_of_scalar(builder: Builder, node: Node) -> Node | None:
    """Returns the only element, in the dtype of the sum; the runtime's kernel rejects 0-d tensors."""
    x = value_of(builder, bind(node)["self"])
    return None if x.shape else x.to(dtype_of(node)).node


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.int64
    result = _scan([x.to(dtype)], dim, [1], lambda before, own: [before[0] * own[0]])
    return result if result is NotImplemented else result[0]


def _logcumsumexp(x: Tensor, dim: int) -> Any:
    result = _scan([x], dim, [-math.inf], lambda before, own: [torch.logaddexp(before[0], own[0])])
    return result if result is NotImplemented else result[0]


def _extremum(lowest: bool) -> Callable[[Tensor, int], Any]:
    def combine(before: list[Tensor], own: list[Tensor]) -> list[Tensor]:
        """Selects the later of two equal elements; NaN before other values, and the last NaN."""
        takes = own[0] <= before[0] if lowest else own[0] >= before[0]
        if own[0].is_floating_point():
            takes = torch.isnan(own[0]) | (takes & ~torch.isnan(before[0]))
        else:
            takes = takes | (before[1] < 0)
        return [torch.where(takes, own[0], before[0]), torch.where(takes, own[1], before[1])]

    def function(x: Tensor, dim: int) -> Any:
        if x.dim() == 0:
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        position = torch.arange(x.shape[dim]).view([-1] + [1] * (x.dim() - 1 - dim % x.dim()))
        widened = x.to(torch.uint8) if x.dtype is torch.bool else x
        # the bounds of int64 are beyond the int32 that some targets compute in: the position tells instead
        bound = (math.inf if lowest else -math.inf) if x.is_floating_point() else 0
        result = _scan([widened, position.expand(x.shape)], dim, [bound, -1], combine)
        return result if result is NotImplemented else (result[0].to(x.dtype), result[1])

    return function


RULES: RuleTable = {aten.cumsum.default: _sum_of_scalar}

FUNCTIONS: FunctionTable = {
    aten.cummax.default: _extremum(lowest=False),
    aten.cummin.default: _extremum(lowest=True),
    aten.cumprod.default: _cumprod,
    aten.logcumsumexp.default: _logcumsumexp,
}


# ---- for targets that only add ---------------------------------------------------------------------------


def _running_sum(x: Value, dim: int) -> Value:
    """Returns the cumulative sum, of floating point in float32, as a parallel scan.

    Each step doubles the number of preceding elements that each partial sum covers.
    """
    shape = x.shape
    total = x.widened().view(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    shift = 1
    while shift < shape[dim]:
        total = total + total.slice(1, 0, shape[dim] - shift).pad([0, 0, shift, 0])
        shift *= 2
    return total.view(*shape).to(x.dtype)


def _cumulative_sum(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"], dtype_of(node))
    if not x.rank:
        return x.node
    return _running_sum(x, positive(bound["dim"], x.rank)).node


_NUMERIC: Final = result_dtypes(
    (torch.float32, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64),
    "bools do not support addition.",
)

REWRITES: Final = (
    Rewrite(
        aten.cumsum.default,
        _cumulative_sum,
        (_NUMERIC,),
        note="a parallel scan; floating point in float32",
    ),
)
