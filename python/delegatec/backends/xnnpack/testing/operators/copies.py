# SPDX-License-Identifier: Apache-2.0
"""Broadcasts along dimensions, whose size may be dynamic."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.backends.common.testing import Function, X, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_BATCH: Final = torch.export.Dim("batch", min=1, max=6)
_LENGTH: Final = torch.export.Dim("length", min=2, max=40)
_ROW: Final = floats(1, 8)


def _of_batch(function: Function, *sizes: int, dtype: torch.dtype = torch.float32) -> Case:
    """Returns a case of a value [batch, *sizes], of which only the batch is used, and of a row."""
    values = [torch.full((batch, *sizes), 1, dtype=dtype) for batch in (3, 1, 6)]
    if dtype.is_floating_point:
        values = [each * math.nan for each in values]
    first, *more = ((each, _ROW) for each in values)
    return Case(function, first, "", ({0: _BATCH}, {}), more)


def _rows(x: Tensor, row: Tensor) -> Tensor:
    return row.exp().expand(x.shape[0], 3, 8)


def _with_class(x: Tensor, token: Tensor) -> Tensor:
    """Concatenates a row with each image, as vision transformers do."""
    return torch.cat([token[None].expand(x.shape[0], -1, -1), x.exp()], 1) * 2


def _both(x: Tensor, row: Tensor) -> Tensor:
    return row.exp().expand(*x.shape[:2], 8) + x


def _masked(x: Tensor, kept: Tensor) -> Tensor:
    limit = (kept > 0)[:, None, None].expand(-1, 1, x.shape[1], -1)
    return torch.where(limit, x[:, None, :, :1] * kept[:, None, None], -1.0).softmax(-1)


def _sizes(first: dict[int, Any], *others: dict[int, Any]) -> tuple[dict[int, Any], ...]:
    return first, *others


_DTYPES: Final = (
    *(torch.float32, torch.float16, torch.float64, torch.bool),
    *(torch.uint8, torch.int16, torch.int32, torch.int64),
)
CASES: Final[dict[str, Case]] = {
    "copies": Case(lambda x: x.exp()[:, None].expand(2, 5, 3, 4), (X,), "Exp Reshape Multiply"),
    "copies-first": Case(lambda x: x.exp().expand(5, 2, 3, 4), (X,)),
    **{
        f"copies-of-a-batch-of-{str(dtype).removeprefix('torch.')}": _of_batch(_rows, 4, dtype=dtype)
        for dtype in _DTYPES
    },
    "copies-of-a-batch-of-numbers": _of_batch(_rows),
    "copies-with-a-class": Case(
        _with_class,
        (floats(3, 4, 8), _ROW),
        "",
        _sizes({0: _BATCH}, {}),
        ((floats(1, 4, 8), _ROW), (floats(6, 4, 8), _ROW)),
    ),
    "copies-of-two-sizes": Case(
        _both,
        (floats(3, 4, 8), _ROW),
        "",
        _sizes({0: _BATCH, 1: _LENGTH}, {}),
        ((floats(1, 40, 8), _ROW), (floats(6, 2, 8), _ROW)),
    ),
    "copies-of-a-mask": Case(
        _masked,
        (floats(3, 4, 8), floats(3, 4)),
        "",
        _sizes({0: _BATCH, 1: _LENGTH}, {0: _BATCH, 1: _LENGTH}),
        ((floats(1, 40, 8), floats(1, 40)), (floats(6, 2, 8), floats(6, 2))),
    ),
}
