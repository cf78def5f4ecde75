# SPDX-License-Identifier: Apache-2.0
"""Weights of transposed convolutions, in the form that a convolution reads.

With stride s, element o of the result sums the operand's element i times tap t where o = s * i + d * t
(padding left aside). For each phase o mod s that is a convolution with every s-th tap, backwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import constant, operand, table
from delegatec.backends.mps.operators.layers.padding import padded
from delegatec.edge.nodes import dtype_of, shape_of

_NONE: Final = -1

Taps = list[list[int]]
"""[taps of the convolution][phases]: which tap of the transposed one it is; -1 for a zero."""


def taps(size: int, stride: int, dilation: int) -> Taps:
    """Where the taps of one dimension go; with stride 1 the convolution has the dilation."""
    if stride == 1:
        return [[tap] for tap in reversed(range(size))]
    count = -(-(dilation * (size - 1) + 1) // stride)
    rows = [[_NONE] * stride for _ in range(count)]
    for tap in range(size):
        back, phase = divmod(tap * dilation, stride)
        rows[count - 1 - back][phase] = tap
    return rows


def arranged(b: GraphBuilder, node: Node, groups: int, tables: Sequence[Taps]) -> Expression:
    """[C, O / groups, *taps] as [O * phases, C / groups, *taps], with taps as the tables say.

    A constant is arranged here, into memory of its own; what is computed at run time, by the graph.
    """
    channels, outputs, *sizes = shape_of(node)
    counts, phases = [len(rows) for rows in tables], [len(rows[0]) for rows in tables]
    apart = (groups, channels // groups, outputs, *sizes)
    form = (groups, outputs, *phases, channels // groups, *counts)
    whole = (groups * outputs * torch.Size(phases).numel(), channels // groups, *counts)
    value = b.constant_value(node)
    if value is not None:
        result = torch.zeros(form, dtype=value.dtype)
        _fill(result, value.detach().view(apart), tables)
        return constant(b, result.view(whole), b.name_of(node), dtype_of(node))
    x = operand(b, node).view(*apart)
    for axis, (rows, size) in enumerate(zip(tables, sizes, strict=True)):
        # Behind the dimensions before it, which are a tap and a phase each by now.
        dim = 3 + 2 * axis
        places = torch.tensor(rows, dtype=torch.int32)
        if (places == _NONE).any():
            x = padded(x, dim, 0, 1)
            places[places == _NONE] = size
        x = x.index_select(dim, table(b, places))
    many = len(tables)
    order = [0, 2, *(4 + 2 * axis for axis in range(many)), 1, *(3 + 2 * axis for axis in range(many))]
    return x.permute(*order).view(*whole)


def _fill(result: torch.Tensor, weight: torch.Tensor, tables: Sequence[Taps]) -> None:
    """Writes [groups, C, O, *taps] into [groups, O, *phases, C, *taps]."""
    several = [
        [(i, j) for i, row in enumerate(rows) for j, tap in enumerate(row) if tap != _NONE] for rows in tables
    ]
    for places in itertools.product(*several):
        # From the last dimension on, so that those before keep their numbers.
        target, source = result, weight
        for axis, (tap, phase) in reversed(list(enumerate(places))):
            target = target.select(3 + len(tables) + axis, tap)
            source = source.select(3 + axis, tables[axis][tap][phase])
        for axis, (_, phase) in reversed(list(enumerate(places))):
            target = target.select(2 + axis, phase)
        target.copy_(source.transpose(1, 2))
