# SPDX-License-Identifier: Apache-2.0
"""Extrema with their positions.

Positions are those of ATen: the first of several equal ones, and of the first NaN if there is one. They are
the least of the positions that hold the extremum, so that no order of ties has to be known.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.folding import amax, amin
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand, positions
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import positive, read_results


def first_at(x: Expression, extremum: Expression, dim: int) -> Expression:
    """Where a dimension has its extremum first: int32, the dimension is kept with size 1.

    Args:
        x: numbers.
        extremum: the largest or smallest along the dimension, which is kept; NaN if there is one.
        dim: the dimension.
    """
    found = x.compare(Operation.Eq, extremum)
    if x.dtype.is_floating_point:  # Nothing equals NaN, so that these are the only ones found then.
        found = found | x.unary(Operation.Isnan, torch.bool)
    size = x.shape[dim]
    place = positions(x.builder, size, dim, len(x.shape))
    return amin(found.where(place, full(x.builder, [1], size, torch.int32)), [dim], keepdim=True)


def _ordered(b: GraphBuilder, node: Node) -> Expression:
    x = operand(b, bind(node)["self"])
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _argument(largest: bool) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        x = _ordered(b, node)
        bound, shape = bind(node), tuple(node.meta["val"].shape)
        dim = bound["dim"]
        if dim is None or not x.shape:
            x, dim = x.view(math.prod(x.shape)), 0
        dim = positive(dim, len(x.shape))
        extremum = (amax if largest else amin)(x, [dim], True)
        first_at(x, extremum, dim).view(*shape).to(torch.int64).bind(node)

    return lower


def _with_argument(largest: bool) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        source = operand(b, bind(node)["self"])
        x = _ordered(b, node)
        shape = tuple(node.meta["val"][0].shape)
        x = x if x.shape else x.view(1)
        dim = positive(bind(node)["dim"], len(x.shape))
        extremum = (amax if largest else amin)(x, [dim], True)
        extremum.view(*shape).to(source.dtype).bind(node, 0)
        if 1 in read_results(node):
            first_at(x, extremum, dim).view(*shape).to(torch.int64).bind(node, 1)

    return lower


_OPERATIONS: Final = "View Permute Cast Neg Sub Slice Minimum Isnan Mean Gt Full Where Eq BitwiseOr Ne"

ROWS: Final = tuple(
    OperatorRow(
        overload(name),
        tuple(_OPERATIONS.split()),
        lower,
        note="the least of the positions that hold the extremum",
    )
    for name, lower in (
        ("argmax", _argument(largest=True)),
        ("argmin", _argument(largest=False)),
        ("max.dim", _with_argument(largest=True)),
        ("min.dim", _with_argument(largest=False)),
    )
)
