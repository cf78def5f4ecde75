# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on two tensors, or a tensor and a scalar.

The runtime promotes float16 to float32 and aborts on every other promotion, so lowerings emit casts. MPSGraph
does not have arithmetic on bools: a sum of bools is "or", a product "and".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import BinaryT, Operation, ScaledBinaryT
from torch.fx import Node

from delegatec.backends.common.node_values import Operand
from delegatec.backends.common.row import overload, variants
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.dtypes import INTEGERS
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import exact_scalar
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import result_dtypes


def operands_of(node: Node) -> tuple[Operand, Operand]:
    """Returns the first two arguments."""
    first, second, *_ = bind(node).values()
    return first, second


def arithmetic(operation: int, dtype: Callable[[Node], torch.dtype] = dtype_of) -> Lower:
    """Returns the lowering of a binary operator; `dtype` returns that of its operands."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, dtype(node)) for o in operands_of(node))
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def _or_bitwise(operation: int, on_bools: int) -> Lower:
    """Returns the lowering to one operation for numeric dtypes and another for bools."""

    def lower(b: GraphBuilder, node: Node) -> None:
        arithmetic(on_bools if dtype_of(node) == torch.bool else operation)(b, node)

    return lower


def _scaled(operation: int) -> Lower:
    """Returns the lowering of `self op alpha * other`."""

    def lower(b: GraphBuilder, node: Node) -> None:
        _scaled_pair(b, node, operation, *operands_of(node))

    return lower


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    first, second = operands_of(node)
    _scaled_pair(b, node, Operation.Sub, second, first)


def _scaled_pair(b: GraphBuilder, node: Node, operation: int, first: Operand, second: Operand) -> None:
    dtype, alpha = dtype_of(node), bind(node)["alpha"]
    if dtype == torch.bool:
        arithmetic(Operation.BitwiseOr)(b, node)
        return
    table = ScaledBinaryT(
        input1Id=b.operand(first, dtype),
        input2Id=b.operand(second, dtype),
        outputId=b.result(node),
        alpha=b.representable(alpha, dtype),
    )
    b.emit(operation, table)


def _scaled_bools(node: Node, _: object) -> str | None:
    if dtype_of(node) == torch.bool and bind(node)["alpha"] != 1:
        return f"alpha is {bind(node)['alpha']}"
    return None


_SCALED: Final = (
    exact_scalar("alpha"),
    Constraint("argument", "The alpha of bools is 1.", _scaled_bools),
)
_INTEGERS: Final = result_dtypes(INTEGERS, "MPSGraph's minimum may drop NaN, and does not support bools.")

ROWS: Final = (
    *(
        OperatorRow(overload(name), _scaled(Operation.Add), _SCALED)
        for name in variants({"add": ""}, "Tensor", "Scalar")
    ),
    *(
        OperatorRow(overload(name), _scaled(Operation.Sub), _SCALED)
        for name in variants({"sub": ""}, "Tensor", "Scalar")
    ),
    OperatorRow(overload("rsub.Scalar"), _reversed_sub, _SCALED),
    *(
        OperatorRow(overload(name), _or_bitwise(Operation.Mul, Operation.BitwiseAnd))
        for name in variants({"mul": ""}, "Tensor", "Scalar")
    ),
    # Without maximum and atan2: the runtime does not implement Max and Atan2 of the format.
    *family({"minimum": "Minimum"}, arithmetic, _INTEGERS),
)
