# SPDX-License-Identifier: Apache-2.0
"""Gathers of slices by an index that is not negative.

GATHER has values [N, K, C] and indices [N, W]: here N are the dimensions before the gathered one.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import ALL
from delegatec.backends.arm.operators.moves import tiled
from delegatec.backends.arm.operators.row import operator_row
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import argument

_INDEX: Final = (torch.int32, torch.int64)


def gathered(b: GraphBuilder, value: Value, dim: int, index: Node) -> Value:
    """Returns slices of a dimension, which the dimensions of the index replace."""
    before, size, after = value.shape[:dim], value.shape[dim], value.shape[dim + 1 :]
    batch, count = math.prod(before), math.prod(shape_of(index))
    # TOSA gathers no bools
    is_bool = value.dtype == DType.BOOL
    moved = b.cast(value, DType.INT8) if is_bool else value
    moved = b.reshaped(moved, (batch, size, math.prod(after)))
    found = b.emit("GATHER", moved, _places(b, index, batch), shape=(batch, count, math.prod(after)))
    found = b.reshaped(found, (*before, *shape_of(index), *after))
    return b.cast(found, DType.BOOL) if is_bool else found


def _places(b: GraphBuilder, index: Node, batch: int) -> Value:
    """Returns all elements of an index, once for each batch."""
    shape = (batch, math.prod(shape_of(index)))
    if b.is_constant(index):
        return b.arranged(index, lambda tensor: tensor.reshape(1, -1).expand(shape), "places", batch)
    places = b.of(index)
    if places.shape == shape:
        return places
    if b.settings.specification.integer:
        return tiled(b, b.reshaped(places, (1, shape[1])), shape)
    # the profile FP moves no integers; those below the size of a dimension are exact in FP32
    moved = b.cast(places, DType.FP32)
    return b.cast(tiled(b, b.reshaped(moved, (1, shape[1])), shape), DType.INT32)


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value, index = b.of(bound["self"]), bound["index"]
    found = gathered(b, value, positive(bound["dim"], max(len(value.shape), 1)), index)
    b.alias(node, b.reshaped(found, shape_of(node)))


def _index(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    ((dim, index),) = [(dim, each) for dim, each in enumerate(bound["indices"]) if each is not None]
    b.alias(node, gathered(b, b.of(bound["self"]), dim, index))


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, gathered(b, b.of(bound["weight"]), 0, bound["indices"]))


def _is_single(indices: object) -> bool:
    assert isinstance(indices, (list, tuple))
    given = [each for each in indices if each is not None]
    return len(given) == 1 and dtype_of(given[0]) in _INDEX


_SINGLE: Final = argument("indices", _is_single, "One index, of integers: others are positions in a view.")


def _may_be_negative(node: Node, facts: Facts) -> str | None:
    (index,) = (each for each in bind(node)["indices"] if each is not None)
    return None if facts.of(index).low >= 0 else f"{index.name} may have negative elements"


_IN_RANGE: Final = Constraint("index", "Indices are not negative: GATHER has no others.", _may_be_negative)

ROWS: Final = (
    operator_row("index_select", _index_select, ALL),
    operator_row("index.Tensor", _index, ALL, _SINGLE, known=(_IN_RANGE,)),
    operator_row("embedding", _embedding, ALL),
)
