# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent layers, and their cells, as unrolled matrix products and gates.

Torch decomposes `lstm` to a kernel that exists only in its CPU library, and the others for one batch size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable

aten = torch.ops.aten


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

    of_input: Node
    of_hidden: Node
    input_bias: Node | None
    hidden_bias: Node | None
    projection: Node | None = None


# Computes the next hidden and memory states from the projected input [B, gates * H] and the current states.
_Step = Callable[[Builder, _Cell, Node, Node, Node], tuple[Node, Node]]


def _recurrent(step: _Step) -> Rule:
    def rule(b: Builder, node: Node) -> list[Node] | None:
        a = bind(node)
        x = a["input"]
        length = shape_of(x)[1 if a["batch_first"] else 0]
        if (a["train"] and a["dropout"]) or not isinstance(length, int):
            return None
        directions = 2 if a["bidirectional"] else 1
        cells = _cells(a["params"], a["num_layers"] * directions, a["has_biases"])
        if a["batch_first"]:
            x = b.call(aten.permute.default, x, [1, 0, 2])
        # only LSTM has a memory state
        hx = a["hx"] if isinstance(a["hx"], (tuple, list)) else [a["hx"]]
        last: list[tuple[Node, Node]] = []
        for _ in range(a["num_layers"]):
            outputs = []
            for direction in range(directions):
                index = len(last)
                start = [b.call(aten.select.int, state, 0, index) for state in hx]
                order = range(length)[::-1] if direction else range(length)
                states, end = _run(b, step, cells[index], x, (start[0], start[-1]), order)
                outputs.append(states)
                last.append(end)
            x = outputs[0] if directions == 1 else b.call(aten.cat.default, outputs, 2)
        if a["batch_first"]:
            x = b.call(aten.permute.default, x, [1, 0, 2])
        ends = list(zip(*last, strict=True))[: len(hx)]
        return [x, *(b.call(aten.stack.default, list(states), 0) for states in ends)]

    return rule


def _cells(weights: Sequence[Node], count: int, has_biases: bool) -> list[_Cell]:
    each = len(weights) // count
    found = []
    for start in range(0, len(weights), each):
        own: list[Node | None] = list(weights[start : start + each])
        if not has_biases:
            own[2:2] = [None, None]
        found.append(_Cell(weights[start], weights[start + 1], *own[2:4], *own[4:5]))
    return found


def _run(
    b: Builder, step: _Step, cell: _Cell, x: Node, state: tuple[Node, Node], order: range
) -> tuple[Node, tuple[Node, Node]]:
    """Returns the hidden states [T, B, P] of a sequence [T, B, I], and the last state."""
    from_input = b.call(aten.linear.default, x, cell.of_input, cell.input_bias)
    hidden: dict[int, Node] = {}
    for time in order:
        state = step(b, cell, b.call(aten.select.int, from_input, 0, time), *state)
        hidden[time] = state[0]
    return b.call(aten.stack.default, [hidden[time] for time in sorted(hidden)], 0), state


def _lstm(b: Builder, cell: _Cell, from_input: Node, h: Node, c: Node) -> tuple[Node, Node]:
    gates = b.call(
        aten.add.Tensor, from_input, b.call(aten.linear.default, h, cell.of_hidden, cell.hidden_bias)
    )
    entry, forget, candidate, out = _gates(b, gates, 4)
    kept = b.call(aten.mul.Tensor, b.call(aten.sigmoid.default, forget), c)
    added = b.call(aten.mul.Tensor, b.call(aten.sigmoid.default, entry), b.call(aten.tanh.default, candidate))
    c = b.call(aten.add.Tensor, kept, added)
    h = b.call(aten.mul.Tensor, b.call(aten.sigmoid.default, out), b.call(aten.tanh.default, c))
    if cell.projection is not None:
        h = b.call(aten.linear.default, h, cell.projection, None)
    return h, c


def _gru(b: Builder, cell: _Cell, from_input: Node, h: Node, _: Node) -> tuple[Node, Node]:
    from_hidden = b.call(aten.linear.default, h, cell.of_hidden, cell.hidden_bias)
    (reset, update, new), (h_reset, h_update, h_new) = (_gates(b, x, 3) for x in (from_input, from_hidden))
    reset = b.call(aten.sigmoid.default, b.call(aten.add.Tensor, reset, h_reset))
    update = b.call(aten.sigmoid.default, b.call(aten.add.Tensor, update, h_update))
    new = b.call(aten.tanh.default, b.call(aten.add.Tensor, new, b.call(aten.mul.Tensor, reset, h_new)))
    kept = b.call(aten.mul.Tensor, update, b.call(aten.sub.Tensor, h, new))
    h = b.call(aten.add.Tensor, new, kept)
    return h, h


def _plain(activation: OpOverload) -> _Step:
    def step(b: Builder, cell: _Cell, from_input: Node, h: Node, _: Node) -> tuple[Node, Node]:
        from_hidden = b.call(aten.linear.default, h, cell.of_hidden, cell.hidden_bias)
        h = b.call(activation, b.call(aten.add.Tensor, from_input, from_hidden))
        return h, h

    return step


def _gates(b: Builder, x: Node, count: int) -> list[Node]:
    width = shape_of(x)[1] // count
    return [b.call(aten.slice.Tensor, x, 1, gate * width, (gate + 1) * width) for gate in range(count)]


def _single(step: _Step) -> Rule:
    """Returns the rule of one time step of a layer, such as `LSTMCell`."""

    def rule(b: Builder, node: Node) -> list[Node] | Node:
        a = bind(node)
        cell = _Cell(a["w_ih"], a["w_hh"], a["b_ih"], a["b_hh"])
        state = a["hx"] if isinstance(a["hx"], (tuple, list)) else [a["hx"]]
        from_input = b.call(aten.linear.default, a["input"], cell.of_input, cell.input_bias)
        ends = step(b, cell, from_input, state[0], state[-1])
        return list(ends) if len(state) == 2 else ends[0]

    return rule


RULES: RuleTable = {
    aten.gru.input: _recurrent(_gru),
    aten.gru_cell.default: _single(_gru),
    aten.lstm.input: _recurrent(_lstm),
    aten.lstm_cell.default: _single(_lstm),
    aten.rnn_relu.input: _recurrent(_plain(aten.relu.default)),
    aten.rnn_tanh.input: _recurrent(_plain(aten.tanh.default)),
}
