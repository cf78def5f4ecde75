# SPDX-License-Identifier: Apache-2.0
"""LSTM layers as matrix products and gates, one step after the other.

Torch decomposes `lstm` to a kernel of its CPU library, which nothing else has. Its GRU and RNN are well
decomposed by torch itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape
from delegatec.edge.builder import Builder
from delegatec.edge.decompositions.rule import RuleTable

aten = torch.ops.aten


@dataclass(frozen=True)
class _Cell:
    """Weights of one direction of one layer; a projection makes the hidden state smaller than the cell state.

    Attributes:
        of_input: [4H, I].
        of_hidden: [4H, P], where P is H if there is no projection.
        input_bias: [4H].
        hidden_bias: [4H].
        projection: [P, H].
    """

    of_input: Node
    of_hidden: Node
    input_bias: Node | None
    hidden_bias: Node | None
    projection: Node | None = None


def _lstm(b: Builder, node: Node) -> list[Node] | None:
    a = bind(node)
    x = a["input"]
    length = shape(x)[1 if a["batch_first"] else 0]
    if (a["train"] and a["dropout"]) or not isinstance(length, int):
        return None
    directions = 2 if a["bidirectional"] else 1
    cells = _cells(a["params"], a["num_layers"] * directions, a["has_biases"])
    if a["batch_first"]:
        x = b.call(aten.permute.default, x, [1, 0, 2])
    hidden, memory = a["hx"]
    last_hidden, last_memory = [], []
    for layer in range(a["num_layers"]):
        results = []
        for direction in range(directions):
            index = layer * directions + direction
            h = b.call(aten.select.int, hidden, 0, index)
            c = b.call(aten.select.int, memory, 0, index)
            order = range(length)[::-1] if direction else range(length)
            outputs, h, c = _run(b, cells[index], x, h, c, order)
            results.append(outputs)
            last_hidden.append(h)
            last_memory.append(c)
        x = results[0] if directions == 1 else b.call(aten.cat.default, results, 2)
    if a["batch_first"]:
        x = b.call(aten.permute.default, x, [1, 0, 2])
    return [x, b.call(aten.stack.default, last_hidden, 0), b.call(aten.stack.default, last_memory, 0)]


def _cells(weights: Sequence[Node], count: int, has_biases: bool) -> list[_Cell]:
    each = len(weights) // count
    found = []
    for start in range(0, len(weights), each):
        own: list[Node | None] = list(weights[start : start + each])
        if not has_biases:
            own[2:2] = [None, None]
        found.append(_Cell(weights[start], weights[start + 1], *own[2:4], *own[4:5]))
    return found


def _run(b: Builder, cell: _Cell, x: Node, h: Node, c: Node, order: range) -> tuple[Node, Node, Node]:
    """Hidden states [T, B, P] for a sequence [T, B, I]; the last of them; the last memory [B, H]."""
    width = shape(c)[1]
    from_input = b.call(aten.linear.default, x, cell.of_input, cell.input_bias)
    states: dict[int, Node] = {}
    for time in order:
        from_hidden = b.call(aten.linear.default, h, cell.of_hidden, cell.hidden_bias)
        gates = b.call(aten.add.Tensor, b.call(aten.select.int, from_input, 0, time), from_hidden)
        entry, forget, candidate, out = (
            b.call(aten.slice.Tensor, gates, 1, gate * width, (gate + 1) * width) for gate in range(4)
        )
        kept = b.call(aten.mul.Tensor, b.call(aten.sigmoid.default, forget), c)
        added = b.call(
            aten.mul.Tensor, b.call(aten.sigmoid.default, entry), b.call(aten.tanh.default, candidate)
        )
        c = b.call(aten.add.Tensor, kept, added)
        h = b.call(aten.mul.Tensor, b.call(aten.sigmoid.default, out), b.call(aten.tanh.default, c))
        if cell.projection is not None:
            h = b.call(aten.linear.default, h, cell.projection, None)
        states[time] = h
    return b.call(aten.stack.default, [states[time] for time in sorted(states)], 0), h, c


RULES: RuleTable = {aten.lstm.input: _lstm}
