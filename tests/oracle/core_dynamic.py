# SPDX-License-Identifier: Apache-2.0
"""Models with dimensions that are known only at run time, each at several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import Case, Function, noise

_N = Dim("n", min=2, max=16)
_LONG = Dim("n", min=5, max=20)
_FEW, _OTHER = Dim("a", min=2, max=8), Dim("b", min=2, max=8)


def _sizes(*shape: int | None, sizes: tuple[int, ...] = (4, 2, 16, 7)) -> list[tuple[Tensor, ...]]:
    """Calls with one tensor each, whose dimension None is of each of the sizes."""
    return [(noise(*(size if s is None else s for s in shape), seed=size),) for size in sizes]


def _dynamic(function: Callable[..., Any], shapes: tuple[Any, ...], calls: list[tuple[Any, ...]]) -> Case:
    # *args of `Function` are one tuple to torch.export
    return Case(lambda: Function(function), calls, dynamic_shapes=(shapes,))


def _dynamic_module(
    make: Callable[[], nn.Module], dim: int, calls: list[tuple[Any, ...]], size: Any = _N
) -> Case:
    return Case(make, calls, dynamic_shapes=({dim: size},))


DYNAMIC = {
    "elementwise": _dynamic(
        lambda x: (x + 1, x * x.sum(), x[:, None] * x[None]), ({0: _N},), _sizes(None, 3)
    ),
    "views": _dynamic(
        lambda x: (x.view(-1), x.reshape(x.shape[0] * 3), x.T, x.transpose(0, 1).reshape(-1), x[1:], x[-1]),
        *(({0: Dim("n", min=3, max=16)},), _sizes(None, 3, sizes=(4, 3, 16))),
    ),
    "square": _dynamic(lambda x: (x[:, None] * x[None]).view(-1), ({0: _N},), _sizes(None)),
    "multiple": _dynamic(
        lambda x: x.view(-1, 2, 3).sum(1),
        ({0: 2 * Dim("h", min=1, max=8)},),
        _sizes(None, 3, sizes=(4, 2, 16)),
    ),
    "maximum": _dynamic(lambda x: torch.zeros(max(x.shape[0], 5)), ({0: _N},), _sizes(None, 4)),
    "product": _dynamic(
        lambda x: x.view(x.shape[0] * x.shape[1]),
        *(({0: _FEW, 1: _OTHER},), [(noise(a, b),) for a, b in ((4, 5), (2, 8), (8, 2))]),
    ),
    "creation": _dynamic(
        lambda x: (torch.arange(x.shape[0]), torch.zeros(x.shape[0], 2), x.new_ones(x.shape[0] * 2)),
        *(({0: _N},), _sizes(None)),
    ),
    "sizes": _dynamic(lambda x: (x + 1, x.shape[0], x.shape[0] * 2 + 1), ({0: _N},), _sizes(None, 4)),
    "two_inputs": _dynamic(
        lambda x, y: torch.cat([x, y, x]).sum(1) * x.shape[0],
        *(
            ({0: _FEW}, {0: _OTHER}),
            [(noise(a, 3), noise(b, 3)) for a, b in ((4, 5), (2, 8), (8, 2))],
        ),
    ),
    "moves": _dynamic(
        lambda x: (
            x.split(2, 1),
            x.unbind(1),
            x.repeat(2, 1),
            F.pad(x, (1, 1)),
            x.softmax(0),
            x.cumsum(0),
            x.max(0),
        ),
        *(({0: _N},), _sizes(None, 4)),
    ),
    "mask": _dynamic(
        lambda x: x.masked_fill(torch.arange(x.shape[0])[:, None] > 1, 0.0), ({0: _N},), _sizes(None, 4)
    ),
    "attention": _dynamic(
        lambda x: [F.scaled_dot_product_attention(x, x, x, is_causal=causal) for causal in (False, True)],
        *(({2: _N},), _sizes(2, 3, None, 4)),
    ),
    "order": _dynamic(
        lambda x: (x.roll(1), x.roll(2, 0), x.sort(0)[0], x.sort(0, True)[1], x.median(0)[0]),
        *(({0: _N},), _sizes(None, 3)),
    ),
    # the verifier compares strides, which must not specialize the size of the first call
    "pairs": _dynamic(lambda x: x.sort()[0], ({0: _N},), _sizes(None, sizes=(2, 9, 16))),
    "groups": _dynamic(
        lambda x, w: F.conv1d(x, w, groups=x.shape[1]) * x.numel(),
        *(({0: _N}, None), [(noise(n, 3, 4), noise(3, 1, 2)) for n in (4, 2, 16)]),
    ),
    "linear": _dynamic_module(lambda: nn.Linear(3, 4), 1, _sizes(2, None, 3)),
    "conv1d": _dynamic_module(
        lambda: nn.Conv1d(3, 4, 3, stride=2), 2, _sizes(1, 3, None, sizes=(8, 5, 20)), _LONG
    ),
    "classifier": _dynamic_module(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, 2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        ),
        *(2, _sizes(1, 3, None, 6, sizes=(8, 5, 20)), _LONG),
    ),
    "batch": _dynamic_module(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), 0, _sizes(None, 3, 6, 6)
    ),
    "gru": _dynamic_module(lambda: nn.GRU(3, 4, batch_first=True), 0, _sizes(None, 5, 3)),
    "lstm": _dynamic_module(lambda: nn.LSTM(3, 4, batch_first=True), 0, _sizes(None, 5, 3)),
    "gru_cell": _dynamic_module(lambda: nn.GRUCell(3, 4), 0, _sizes(None, 3)),
    "lstm_cell": _dynamic_module(lambda: nn.LSTMCell(3, 4, bias=False), 0, _sizes(None, 3)),
    "rnn_cell": _dynamic_module(lambda: nn.RNNCell(3, 4, nonlinearity="relu"), 0, _sizes(None, 3)),
    "transformer_layer": _dynamic_module(
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, _sizes(2, None, 4)
    ),
}
