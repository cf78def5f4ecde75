# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as linear ones: a loop over the sequence, whose body reads each weight once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.nn import functional as F  # noqa: N812

from delegatec.edge.legalize.rules.recurrent import (
    Cell,
    Step,
    cells_of,
    gru,
    layers,
    lstm,
    rnn_relu,
    rnn_tanh,
)
from delegatec.frontend.recurrent_functions import scan
from delegatec.quantize.annotate.selection import Selection
from delegatec.quantize.settings import Settings

aten = torch.ops.aten


def _sequence(step: Step[Tensor]) -> Callable[..., Any]:
    def function(
        input: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if train and dropout:
            return NotImplemented
        directions = 2 if bidirectional else 1
        cells = cells_of(F.linear, params, num_layers * directions, has_biases)
        starts: Iterator[tuple[Tensor, ...]] = (
            tuple(each[index] for each in _states(hx)) for index in range(len(cells))
        )
        x = input.transpose(0, 1) if batch_first else input
        is_single = isinstance(x.shape[0], int) and x.shape[0] == 1
        y, ends = layers(_once(step) if is_single else scan(step), torch.cat, cells, directions, x, starts)
        last = (torch.stack(each) for each in zip(*ends, strict=True))
        return (y.transpose(0, 1) if batch_first else y, *last)

    return function


def _once(step: Step[Tensor]) -> Any:
    """Returns the function that computes a sequence of one time step, see `layers`."""

    def function(
        cell: Cell[Tensor], x: Tensor, start: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        state = step(cell, cell.from_input(x)[0], start)
        return state, state[0][None]

    return function


def _single(step: Step[Tensor]) -> Callable[..., Any]:
    def function(
        input: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        cell = Cell(F.linear, w_ih, w_hh, b_ih, b_hh)
        state = step(cell, cell.from_input(input), tuple(_states(hx)))
        return state if len(state) > 1 else state[0]

    return function


def _states(hx: Any) -> Sequence[Tensor]:
    """Returns the parts of a state: only LSTM has a memory."""
    return hx if isinstance(hx, (tuple, list)) else [hx]


RECURRENT: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten.gru.input: _sequence(gru),
    aten.gru_cell.default: _single(gru),
    aten.lstm.input: _sequence(lstm),
    aten.lstm_cell.default: _single(lstm),
    aten.rnn_relu.input: _sequence(rnn_relu),
    aten.rnn_relu_cell.default: _single(rnn_relu),
    aten.rnn_tanh.input: _sequence(rnn_tanh),
    aten.rnn_tanh_cell.default: _single(rnn_tanh),
}
"""Operator -> a function that computes it by linear layers: products with all inputs, and with each state."""


def operators_in_float(program: ExportedProgram, settings: Settings) -> set[str]:
    """Returns the names of operators that stay as they are: those listed, and layers in modules that do.

    A backend knows best whether a recurrent layer in float is a loop.
    """
    selection = Selection(settings)
    calls = [node for node in program.graph.nodes if node.target in RECURRENT]
    others = {node.target for node in calls if not selection.stays(node)}
    return {*settings.float_operators, *(str(node.target) for node in calls if node.target not in others)}
