# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent layers, and their cells, as matrix products and gates.

The equations hold for tensors, in exports of scans, and for values, in unrolled layers. Torch decomposes
`lstm` to a kernel that exists only in its CPU library, and the others for one batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable
from delegatec.edge.legalize.value import Value, cat, value_of

aten = torch.ops.aten

T = TypeVar("T", Tensor, Value)


@dataclass(frozen=True)
class Cell(Generic[T]):
    """Weights of one direction of one layer with G gates: 4 in LSTM, 3 in GRU, 1 otherwise.

    Attributes:
        linear: computes a linear layer of a matrix or of rows of matrices.
        of_input: [G * H, I].
        of_hidden: [G * H, P], where P is H if there is no projection.
        input_bias: [G * H].
        hidden_bias: [G * H].
        projection: [P, H].
    """

    linear: Callable[[T, T, T | None], T]
    of_input: T
    of_hidden: T
    input_bias: T | None
    hidden_bias: T | None
    projection: T | None = None

    def from_input(self, x: T) -> T:
        """Returns the inputs [..., I] as summands of the gates."""
        return self.linear(x, self.of_input, self.input_bias)

    def from_hidden(self, h: T) -> T:
        """Returns the hidden state [B, P] as summands of the gates."""
        return self.linear(h, self.of_hidden, self.hidden_bias)


Step = Callable[[Cell[T], T, tuple[T, ...]], tuple[T, ...]]
"""Computes the next state, of which the first part is the hidden one, from `Cell.from_input` [B, G * H]."""


def cells_of(
    linear: Callable[[T, T, T | None], T], weights: Sequence[T], count: int, has_biases: bool
) -> list[Cell[T]]:
    """Returns the cells of a layer from its parameters in the order of ATen."""
    each = len(weights) // count
    found = []
    for start in range(0, len(weights), each):
        own: list[Any] = list(weights[start : start + each])
        if not has_biases:
            own[2:2] = [None, None]
        found.append(Cell(linear, *own))
    return found


def layers(
    scan: Callable[[Cell[T], T, tuple[T, ...], bool], tuple[tuple[T, ...], T]],
    join: Callable[[list[T], int], T],
    cells: Sequence[Cell[T]],
    directions: int,
    x: T,
    starts: Iterable[tuple[T, ...]],
) -> tuple[T, list[tuple[T, ...]]]:
    """Computes layers of one or two directions.

    Args:
        scan: computes the last state and the hidden states [T, B, P] of a cell, input, first state, and
            whether the sequence is reversed.
        join: concatenates along a dimension.
        cells: for each layer and direction.
        directions: of each layer.
        x: [T, B, I].
        starts: first state of each cell.

    Returns:
        The hidden states of the last layer, [T, B, directions * P], and the last state of each cell.
    """
    ends, outputs = [], []
    for index, (cell, start) in enumerate(zip(cells, starts, strict=True)):
        is_last = index % directions == directions - 1
        end, hidden = scan(cell, x, start, is_last and directions == 2)
        ends.append(end)
        outputs.append(hidden)
        if is_last:
            x, outputs = join(outputs, 2), []
    return x, ends


def lstm(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    h, c = state
    entry, forget, candidate, out = (from_input + cell.from_hidden(h)).chunk(4, 1)
    c = forget.sigmoid() * c + entry.sigmoid() * candidate.tanh()
    h = out.sigmoid() * c.tanh()
    return h if cell.projection is None else cell.linear(h, cell.projection, None), c


def gru(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    (h,) = state
    from_hidden = cell.from_hidden(h)
    reset, update, new = from_input.chunk(3, 1)
    h_reset, h_update, h_new = from_hidden.chunk(3, 1)
    reset, update = (reset + h_reset).sigmoid(), (update + h_update).sigmoid()
    new = (new + reset * h_new).tanh()
    return (new + update * (h - new),)


def rnn_relu(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    return ((from_input + cell.from_hidden(state[0])).relu(),)


def rnn_tanh(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    return ((from_input + cell.from_hidden(state[0])).tanh(),)


# ---- normal form -----------------------------------------------------------------------------------------


def _linear(x: Value, weight: Value, bias: Value | None) -> Value:
    nodes = (x.node, weight.node, None if bias is None else bias.node)
    return Value(x.builder, x.builder.call(aten.linear.default, *nodes))


def _recurrent(step: Step[Value]) -> Rule:
    def rule(b: Builder, node: Node) -> list[Node] | None:
        a = bind(node)
        x = value_of(b, a["input"])
        length = x.shape[1 if a["batch_first"] else 0]
        if (a["train"] and a["dropout"]) or not isinstance(length, int):
            return None

        def unrolled(
            cell: Cell[Value], x: Value, state: tuple[Value, ...], is_reversed: bool
        ) -> tuple[tuple[Value, ...], Value]:
            from_input = cell.from_input(x)
            hidden: dict[int, Node] = {}
            for time in range(length)[:: -1 if is_reversed else 1]:
                state = step(cell, _selected(from_input, time), state)
                hidden[time] = state[0].node
            return state, _stacked(b, [hidden[time] for time in sorted(hidden)])

        directions = 2 if a["bidirectional"] else 1
        count = a["num_layers"] * directions
        cells = cells_of(_linear, [value_of(b, each) for each in a["params"]], count, a["has_biases"])
        hx = [value_of(b, each) for each in _states(a["hx"])]
        starts = (tuple(_selected(each, index) for each in hx) for index in range(count))
        if a["batch_first"]:
            x = x.permute(1, 0, 2)
        y, ends = layers(unrolled, cat, cells, directions, x, starts)
        if a["batch_first"]:
            y = y.permute(1, 0, 2)
        last = [_stacked(b, [each.node for each in part]) for part in zip(*ends, strict=True)]
        return [y.node, *(each.node for each in last)]

    return rule


def _single(step: Step[Value]) -> Rule:
    """Returns the rule of one time step of a layer, such as `LSTMCell`."""

    def rule(b: Builder, node: Node) -> list[Node] | Node:
        a = bind(node)
        weights = (a[name] and value_of(b, a[name]) for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
        cell: Cell[Value] = Cell(_linear, *weights)
        state = tuple(value_of(b, each) for each in _states(a["hx"]))
        ends = step(cell, cell.from_input(value_of(b, a["input"])), state)
        return [each.node for each in ends] if len(ends) > 1 else ends[0].node

    return rule


def _states(hx: Any) -> Sequence[Node]:
    """Returns the parts of a state: only LSTM has a memory."""
    return hx if isinstance(hx, (tuple, list)) else [hx]


def _selected(x: Value, index: int) -> Value:
    return Value(x.builder, x.builder.call(aten.select.int, x.node, 0, index))


def _stacked(b: Builder, nodes: list[Node]) -> Value:
    return Value(b, b.call(aten.stack.default, nodes, 0))


RULES: Final[RuleTable] = {
    aten.gru.input: _recurrent(gru),
    aten.gru_cell.default: _single(gru),
    aten.lstm.input: _recurrent(lstm),
    aten.lstm_cell.default: _single(lstm),
    aten.rnn_relu.input: _recurrent(rnn_relu),
    aten.rnn_tanh.input: _recurrent(rnn_tanh),
}
