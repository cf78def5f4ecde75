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

from delegatec.edge.arguments import bind, shape_of
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
            x, outputs = join(outputs, 2) if directions > 1 else hidden, []
    return x, ends


def lstm(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    h, c = state
    gates = from_input + cell.from_hidden(h)
    # One sigmoid for all gates: calls cost more than the candidate's elements.
    entry, forget, _, out = gates.sigmoid().chunk(4, 1)
    candidate = gates.chunk(4, 1)[2].tanh()
    c = forget * c + entry * candidate
    h = out * c.tanh()
    return h if cell.projection is None else cell.linear(h, cell.projection, None), c


def _split(x: T, width: int) -> tuple[T, T]:
    """Returns the first columns of [B, W], and the others."""
    first, second = x.split([width, x.shape[1] - width], 1)  # type: ignore[no-untyped-call]
    return first, second


def gru(cell: Cell[T], from_input: T, state: tuple[T, ...]) -> tuple[T, ...]:
    """See `Step`."""
    (h,) = state
    from_hidden = cell.from_hidden(h)
    width = from_hidden.shape[1] // 3
    (gates, new), (h_gates, h_new) = (_split(each, 2 * width) for each in (from_input, from_hidden))
    reset, update = (gates + h_gates).sigmoid().chunk(2, 1)
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


Scan = Callable[[Cell[Value], Value, tuple[Value, ...], bool], tuple[tuple[Value, ...], Value]]
"""Computes a sequence by a cell, see `layers`."""


def steps_of(node: Node) -> int | None:
    """Returns the length of the sequence of a layer's call; None if it varies, or if values are dropped."""
    a = bind(node)
    length = shape_of(a["input"])[1 if a["batch_first"] else 0]
    is_fixed = isinstance(length, int) and not (a["train"] and a["dropout"])
    return length if is_fixed else None


def layer(b: Builder, node: Node, scan: Scan) -> list[Node]:
    """Computes a call of layers, one of `STEPS`; returns its results."""
    a = bind(node)
    x = value_of(b, a["input"])
    directions = 2 if a["bidirectional"] else 1
    count = a["num_layers"] * directions
    cells = cells_of(_linear, [value_of(b, each) for each in a["params"]], count, a["has_biases"])
    hx = [value_of(b, each) for each in _states(a["hx"])]
    starts = (tuple(_selected(each, index) for each in hx) for index in range(count))
    if a["batch_first"]:
        x = x.permute(1, 0, 2)
    y, ends = layers(scan, cat, cells, directions, x, starts)
    if a["batch_first"]:
        y = y.permute(1, 0, 2)
    last = [_stacked(b, [each.node for each in part]) for part in zip(*ends, strict=True)]
    return [y.node, *(each.node for each in last)]


def _recurrent(step: Step[Value]) -> Rule:
    def rule(b: Builder, node: Node) -> list[Node] | None:
        length = steps_of(node)
        if length is None:
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

        return layer(b, node, unrolled)

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


STEPS: Final[dict[Any, Step[Value]]] = {
    aten.gru.input: gru,
    aten.lstm.input: lstm,
    aten.rnn_relu.input: rnn_relu,
    aten.rnn_tanh.input: rnn_tanh,
}
"""Layers of sequences -> a step of one."""

RULES: Final[RuleTable] = {
    **{target: _recurrent(step) for target, step in STEPS.items()},
    aten.gru_cell.default: _single(gru),
    aten.lstm_cell.default: _single(lstm),
}
