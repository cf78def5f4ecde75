# SPDX-License-Identifier: Apache-2.0
"""Functions of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch

_FUNCTIONS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "EXP": torch.exp,
    "LOG": torch.log,
    "SIN": torch.sin,
    "COS": torch.cos,
    "TANH": torch.tanh,
    "SIGMOID": torch.sigmoid,
    "ERF": torch.erf,
    "RSQRT": torch.rsqrt,
    "RECIPROCAL": torch.reciprocal,
    "FLOOR": torch.floor,
    "CEIL": torch.ceil,
    "ABS": torch.abs,
    "ADD": torch.add,
    "SUB": torch.sub,
    "MAXIMUM": torch.maximum,
    "MINIMUM": torch.minimum,
    "EQUAL": torch.eq,
    "GREATER": torch.gt,
    "GREATER_EQUAL": torch.ge,
    "LOGICAL_NOT": torch.logical_not,
    "IDENTITY": torch.clone,
}


def _kernel(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *operands, **_: function(*operands)


def _mul(first: torch.Tensor, second: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return first * second


def _negate(x: torch.Tensor, zero: torch.Tensor, out_zero: torch.Tensor) -> torch.Tensor:
    return -x


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    **{name: _kernel(function) for name, function in _FUNCTIONS.items()},
    "MUL": _mul,
    "NEGATE": _negate,
}
