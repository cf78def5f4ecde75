# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic and selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.backends.common.testing import X, Y
from delegatec.backends.xnnpack.testing.operators.case import Case

_LEFT: Final = torch.tensor(
    [math.inf, -math.inf, math.inf, 0.0, -0.0, 1.0, 2.0, -2.0, 65504.0, 2.0**-14, 1.0]
)
_RIGHT: Final = torch.tensor(
    [math.inf, math.inf, 0.0, 0.0, 0.0, 1.001, -2.0, 2.0, 65504.0, 2.0**-13, -math.inf]
)
_MASK: Final = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
_OTHER: Final = _MASK.flip(1)


def _compared(compare: Callable[[Any, Any], Any]) -> Case:
    """Compares pairs, and with scalars, also infinities and NaN."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        floats = (1.0, math.inf, -math.inf, math.nan)
        return compare(x, y), *(compare(x, number) for number in floats)

    return Case(function, (_LEFT, _RIGHT))


def _logic(x: torch.Tensor, y: torch.Tensor) -> Any:
    logical = torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y), torch.logical_not(y)
    return x & y, x | y, x ^ y, ~x, *logical


def _reductions(x: torch.Tensor) -> Any:
    return x.any(1), x.all(-1), x.any(), x.all(), x.any(0, keepdim=True), x.sum(0, dtype=torch.float32)


def _choices(mask: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
    lowest = torch.finfo(torch.float32).min
    return torch.where(mask, x, y), torch.where(mask, x, -3.0), x.masked_fill(mask, lowest) * 0.0


def _with_positions(x: torch.Tensor) -> Any:
    at = torch.arange(4)
    found = x > at, x < at, x >= at, x <= at, x == at, x != at
    return *found, torch.maximum(x, at), torch.minimum(x, at)


CASES: Final[dict[str, Case]] = {
    **{
        compare.__name__: _compared(compare)
        for compare in (torch.eq, torch.ne, torch.gt, torch.lt, torch.ge, torch.le)
    },
    "infinite": Case(torch.isinf, (_LEFT,)),
    "logic": Case(_logic, (_MASK, _OTHER)),
    "padded": Case(lambda x, y: torch.nn.functional.pad(x & y, (1, 2), value=-0.5), (_MASK, _OTHER)),
    "reductions": Case(_reductions, (_MASK,)),
    "choices": Case(_choices, (_MASK, X, Y)),
    "infinite-choices": Case(
        lambda mask, x: torch.where(mask, x, -math.inf).softmax(-1).sum(), (_MASK[:1], X)
    ),
    "bool-choices": Case(torch.where, (_MASK, _OTHER, ~_OTHER)),
    "to-bool": Case(lambda x: (x + 0.0).bool(), (_LEFT,)),
    "moves": Case(lambda mask: (~mask).view(4, 3).t().expand(2, 3, 4), (_MASK,)),
    "from-a-bool": Case(lambda mask, x: mask.float() + x, (_MASK, X), "Convert Add"),
    "compared-with-positions": Case(_with_positions, (X,)),
    "choices-of-positions": Case(lambda x: torch.where(x > 0.5, x, torch.arange(4)), (X,)),
    "constant": Case(lambda x: torch.where(_MASK, x, 0.0), (X,)),
}
