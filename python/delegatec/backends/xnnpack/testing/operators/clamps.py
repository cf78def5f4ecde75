# SPDX-License-Identifier: Apache-2.0
"""Clamps after layers, whose joint bounds are equal or empty: the runtime makes one operation of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.testing.operators.case import Case

_G: Final = torch.Generator().manual_seed(0)
_X: Final = torch.randn(1, 4, 5, 6, generator=_G)
_WEIGHT: Final = torch.randn(4, 4, 3, 3, generator=_G)
_ONE: Final = torch.tensor(1.0)

_LAYERS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "convolution": lambda x: f.conv2d(x, _WEIGHT),
    "transposed convolution": lambda x: f.conv_transpose2d(x, _WEIGHT),
    "depthwise convolution": lambda x: f.conv2d(x, _WEIGHT[:, :1], groups=4),
    "linear layer": lambda x: f.linear(x, _WEIGHT[0, 0].repeat(1, 2)),
}
_CLAMPS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "equal bounds": lambda x: x.clamp(1, 1),
    "its largest value and more": lambda x: f.relu6(x).clamp(min=6),
    "empty joint bounds": lambda x: x.clamp(0, 1).clamp(2, 3),
    "three clamps": lambda x: x.clamp(0, 6).clamp(2, 10).clamp(7, 8),
    "a minimum and a maximum": lambda x: torch.maximum(torch.minimum(x, _ONE), _ONE),
    "a comparison that is true": lambda x: x >= -math.inf,
}


def _clamped(layer: Callable[[Tensor], Tensor], clamp: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return clamp(layer(x))


CASES: Final[dict[str, Case]] = {
    f"{layer}, {clamp}": Case(partial(_clamped, _LAYERS[layer], _CLAMPS[clamp]), (_X,))
    for layer in _LAYERS
    for clamp in _CLAMPS
}
