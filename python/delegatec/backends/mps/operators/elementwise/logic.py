# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logical and bitwise operators."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import BinaryT, Operation, UnaryT
from torch.fx import Node

from delegatec.backends.common.row import overload, variants
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.dtypes import INTEGERS
from delegatec.backends.mps.operators.elementwise.binary import arithmetic, operands_of
from delegatec.backends.mps.operators.elementwise.unary import unpromoted
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind, promoted
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes


def comparison(operation: int) -> Lower:
    """Returns the lowering of a comparison in torch's promoted dtype; bools as int32."""

    def lower(b: GraphBuilder, node: Node) -> None:
        operands = operands_of(node)
        dtype = promoted(operands)
        dtype = torch.int32 if dtype == torch.bool else dtype
        first, second = (b.operand(o, dtype) for o in operands)
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def logical(operation: int) -> Lower:
    """Returns the lowering of a logical operator, on comparisons with zero."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, torch.bool) for o in operands_of(node))
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def _logical_not(b: GraphBuilder, node: Node) -> None:
    source = b.operand(bind(node)["self"], torch.bool)
    b.emit(Operation.LogicalNot, UnaryT(input1Id=source, outputId=b.result(node)))


_BITS_RESULT: Final = result_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_BITS: Final = operand_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_COMPARISONS: Final = {name: name.capitalize() for name in ("eq", "ge", "gt", "le", "lt", "ne")}
_BITWISE: Final = {f"bitwise_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}
_LOGICAL: Final = {f"logical_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}

ROWS: Final = (
    *family(variants(_COMPARISONS, "Tensor", "Scalar"), comparison),
    *family(variants(_BITWISE, "Tensor", "Scalar"), arithmetic, _BITS_RESULT),
    *family(_LOGICAL, logical, note="numbers become bool by comparison with zero"),
    *family({"bitwise_not": "BitwiseNot"}, unpromoted, _BITS),
    OperatorRow(
        overload("logical_not"),
        _logical_not,
        note="a number becomes bool by comparison with zero",
    ),
)
