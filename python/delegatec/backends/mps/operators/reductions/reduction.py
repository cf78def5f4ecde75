# SPDX-License-Identifier: Apache-2.0
"""Reductions: sums, products, extrema, logic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.folding import amax, amin, any_of, prod_of, sum_of
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of, positive, shape_of

aten = torch.ops.aten

Reduce = Callable[[Expression, Sequence[int], bool], Expression]


def reduced_dims(node: Node) -> list[int]:
    """Dimensions that a node reduces, ascending: all if none are given, which `any` takes for none."""
    bound = bind(node)
    rank = len(shape_of(bound["self"]))
    dims = bound.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    if not dims and (dims is None or node.target is not aten.any.dims):
        dims = range(rank)
    return sorted(positive(dim, rank) for dim in dims) if rank else []


def reduction(reduce: Reduce, dtype: torch.dtype | None = None) -> Lower:
    """A row's lowering: the operand, in a dtype or that of the result, reduced along its dimensions."""

    def lower(b: GraphBuilder, node: Node) -> None:
        x = _operand(b, node, dtype or dtype_of(node))
        result = reduce(x, reduced_dims(node), bind(node).get("keepdim", False))
        result.to(dtype_of(node)).bind(node)

    return lower


def _operand(b: GraphBuilder, node: Node, dtype: torch.dtype) -> Expression:
    return operand(b, bind(node)["self"], dtype)


def _mean(x: Expression, dims: Sequence[int], keepdim: bool) -> Expression:
    return x.mean(dims, keepdim) if x.shape else x


def _average(reduce: Reduce) -> Lower:
    """A mean or a sum, of floating point in float32."""

    def lower(b: GraphBuilder, node: Node) -> None:
        dtype = dtype_of(node)
        x = _operand(b, node, torch.float32 if dtype in FLOATS else dtype)
        reduce(x, reduced_dims(node), bind(node).get("keepdim", False)).to(dtype).bind(node)

    return lower


def _sum(b: GraphBuilder, node: Node) -> None:
    """Whole numbers that the program made floating point are added up as what they were: exactly."""
    source, dtype = bind(node)["self"], dtype_of(node)
    if source.target is aten._to_copy.default and dtype in FLOATS:
        (whole,) = source.all_input_nodes
        if dtype_of(whole) not in FLOATS and b.knows(whole):
            x = operand(b, whole, torch.int64)
            sum_of(x, reduced_dims(node), bind(node).get("keepdim", False)).to(dtype).bind(node)
            return
    _average(sum_of)(b, node)


def _row(
    names: str, operations: str, lower: Lower, *constraints: Constraint, note: str = ""
) -> list[OperatorRow]:
    return [
        OperatorRow(overload(name), tuple(operations.split()), lower, constraints, note=note)
        for name in names.split()
    ]


_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph computes means in floating point only.", "convert to float32"
)

ROWS: Final = (
    *_row(
        "mean mean.dim",
        "Permute View Cast Mul Mean",
        _average(_mean),
        _FLOAT_RESULT,
        note="in float32",
    ),
    *_row(
        "sum sum.dim_IntList",
        "Permute View Cast Mul Mean Slice Add Gt",
        _sum,
        note="the mean times the number of elements, in float32; of integers, halves are added",
    ),
    *_row(
        "prod prod.dim_int",
        "Permute View Cast Slice Mul LogicalNot Mean Gt",
        reduction(prod_of),
        note="halves are multiplied, ever shorter ones; floating point in float32",
    ),
    *_row(
        "amax max",
        "View Permute Cast Neg Sub Slice Minimum Isnan Mean Gt Full Where",
        reduction(amax),
        note="minus the least of the negated",
    ),
    *_row(
        "amin min",
        "View Permute Cast Slice Minimum Isnan Mean Gt Full Where LogicalNot",
        reduction(amin),
        note="the minimum of halves, ever shorter ones; NaN if there is one, which is looked for apart",
    ),
    *_row(
        "any any.dim any.dims",
        "View Permute Ne Cast Mean Gt",
        reduction(any_of, torch.bool),
        note="whether the mean of zeros and ones is above zero",
    ),
)
