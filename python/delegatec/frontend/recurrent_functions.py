# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent layers of sequences whose length varies, as scans, for the time of an export.

torch.export unrolls these layers, so that it would fix the length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional as f

_VF: Final[Any] = torch._VF
_FREE: Final = ("of_hidden", "hidden_bias", "projection")
"""Weights that each time step reads."""


@contextlib.contextmanager
def recurrent_functions_replaced() -> Iterator[None]:
    """Replaces the functions that implement `nn.LSTM`, `nn.GRU` and `nn.RNN`."""
    with contextlib.ExitStack() as stack:
        for name, step in _STEPS.items():
            stack.enter_context(patch.object(_VF, name, _of_any_length(getattr(_VF, name), step)))
        yield


@dataclass(frozen=True)
class _Cell:
    """Weights of one direction of one layer with G gates: 4 in LSTM, 3 in GRU, 1 otherwise.

    Attributes:
        of_input: [G * H, I].
        of_hidden: [G * H, P], where P is H if there is no projection.
        input_bias: [G * H].
        hidden_bias: [G * H].
        projection: [P, H].
    """

    of_input: Tensor
    of_hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None


_State = tuple[Tensor, ...]
# Computes the next state, of which the first part is the hidden one, from the projected input [B, G * H].
_Step = Callable[[_Cell, Tensor, _State], _State]


def _of_any_length(original: Callable[..., Any], step: _Step) -> Callable[..., Any]:
    """Returns a layer's function that scans a sequence of dynamic length, and unrolls others as before."""

    def function(input: Tensor, *arguments: Any) -> Any:
        # packed sequences have two dimensions
        if input.dim() == 3:
            hx, weights, has_biases, layers, dropout, training, both_ways, batch_first = arguments
            is_static = isinstance(input.shape[1 if batch_first else 0], int)
            if not is_static and not (training and dropout):
                ways = 2 if both_ways else 1
                cells = _cells(weights, layers * ways, has_biases)
                x = input.transpose(0, 1) if batch_first else input
                start = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
                y, end = _layers(step, cells, ways, x, start)
                return (y.transpose(0, 1) if batch_first else y, *end)
        return original(input, *arguments)

    return function


def _cells(weights: Sequence[Tensor], count: int, has_biases: bool) -> list[_Cell]:
    each = len(weights) // count
    found = []
    for start in range(0, len(weights), each):
        own: list[Tensor | None] = list(weights[start : start + each])
        if not has_biases:
            own[2:2] = [None, None]
        found.append(_Cell(weights[start], weights[start + 1], own[2], own[3], own[4] if own[4:] else None))
    return found


def _layers(step: _Step, cells: list[_Cell], ways: int, x: Tensor, start: _State) -> tuple[Tensor, _State]:
    """Returns the hidden states of the last layer [T, B, ways * P], and the last states of all layers."""
    ends: list[_State] = []
    for first in range(0, len(cells), ways):
        outputs = []
        for way, cell in enumerate(cells[first : first + ways]):
            state = tuple(each[first + way] for each in start)
            end, hidden = _scanned(step, cell, x, state, reverse=way == 1)
            ends.append(end)
            outputs.append(hidden)
        x = torch.cat(outputs, 2)
    return x, tuple(torch.stack(each) for each in zip(*ends, strict=True))


def _scanned(step: _Step, cell: _Cell, x: Tensor, start: _State, *, reverse: bool) -> tuple[_State, Tensor]:
    names = [name for name in _FREE if getattr(cell, name) is not None]

    def body(*values: Tensor) -> list[Tensor]:
        count = len(start)
        own = replace(cell, **dict(zip(names, values[count + 1 :], strict=True)))
        state = step(own, values[count], values[:count])
        return [*state, state[0].clone()]

    # the product with the input is one for all time steps
    from_input = f.linear(x, cell.of_input, cell.input_bias)
    # The operator, as its function would compile the body: code of one layer would fix sizes of the next.
    rows = from_input.flip(0) if reverse else from_input
    *end, hidden = scan_op(body, list(start), [rows], tuple(getattr(cell, name) for name in names))
    return tuple(end), hidden.flip(0) if reverse else hidden


def _lstm(cell: _Cell, from_input: Tensor, state: _State) -> _State:
    h, c = state
    gates = from_input + f.linear(h, cell.of_hidden, cell.hidden_bias)
    entry, forget, candidate, out = gates.chunk(4, 1)
    c = forget.sigmoid() * c + entry.sigmoid() * candidate.tanh()
    h = out.sigmoid() * c.tanh()
    return h if cell.projection is None else f.linear(h, cell.projection), c


def _gru(cell: _Cell, from_input: Tensor, state: _State) -> _State:
    (h,) = state
    reset, update, new = from_input.chunk(3, 1)
    h_reset, h_update, h_new = f.linear(h, cell.of_hidden, cell.hidden_bias).chunk(3, 1)
    new = (new + (reset + h_reset).sigmoid() * h_new).tanh()
    return (new + (update + h_update).sigmoid() * (h - new),)


def _plain(activation: Callable[[Tensor], Tensor]) -> _Step:
    def step(cell: _Cell, from_input: Tensor, state: _State) -> _State:
        return (activation(from_input + f.linear(state[0], cell.of_hidden, cell.hidden_bias)),)

    return step


_STEPS: Final[dict[str, _Step]] = {
    "gru": _gru,
    "lstm": _lstm,
    "rnn_relu": _plain(torch.relu),
    "rnn_tanh": _plain(torch.tanh),
}
