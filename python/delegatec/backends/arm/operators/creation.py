# SPDX-License-Identifier: Apache-2.0
"""Tensors from scalars, as constants."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import TO_TOSA, VALUES
from delegatec.backends.arm.operators.row import operator_row
from delegatec.edge.arguments import bind, dtype_of, shape_of

_LARGEST_CONSTANT: Final = 1024
"""Element count of a tensor filled with one scalar, above which the scalar is tiled."""


def _full(b: GraphBuilder, node: Node) -> None:
    shape, kind = shape_of(node), TO_TOSA[dtype_of(node)]
    bound = bind(node)
    value = bound["fill_value"] if "fill_value" in bound else bound["s"]
    if math.prod(shape) <= _LARGEST_CONSTANT:
        b.alias(node, b.full(shape, value, kind))
    else:
        b.result(node, "TILE", b.scalar(value, kind, len(shape)), b.shape(shape))


def _arange(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    values = torch.arange(bound["start"], bound["end"], bound["step"], dtype=dtype_of(node))
    b.alias(node, b.tensor(values, TO_TOSA[dtype_of(node)]))


ROWS: Final = (
    operator_row("full", _full, VALUES, computes=False),
    operator_row("scalar_tensor", _full, VALUES, computes=False),
    operator_row("arange.start_step", _arange, VALUES, computes=False),
)
