# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparisons and logic on two tensors, or a tensor and a number.

The runtime promotes float16 to float32 and stops at every other promotion, so all of it is done here, by
casts.
"""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import BinaryT, DivisionT, Operation, ScaledBinaryT
from torch.fx import Node

from delegatec.backends.mps.dtypes import FLOATS, INTEGERS, NUMBERS
from delegatec.backends.mps.expression import operand
from delegatec.backends.mps.graph_builder import GraphBuilder, Operand
from delegatec.backends.mps.operators.arguments import dtype_of, promoted
from delegatec.backends.mps.operators.family import Lower, family, overload, variants
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import exact_number, not_in_fp16, result_dtypes
from delegatec.edge.arguments import bind


def _operands(node: Node) -> tuple[Operand, Operand]:
    first, second, *_ = bind(node).values()
    return first, second


def arithmetic(operation: int) -> Lower:
    """output = self op other, in the dtype of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, dtype_of(node)) for o in _operands(node))
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def scaled(operation: int) -> Lower:
    """output = self op alpha * other."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, dtype_of(node)) for o in _operands(node))
        alpha = b.number(bind(node)["alpha"], dtype_of(node))
        table = ScaledBinaryT(input1Id=first, input2Id=second, outputId=b.result(node), alpha=alpha)
        b.emit(operation, table)

    return lower


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    table = ScaledBinaryT(
        input1Id=b.operand(bound["other"], dtype),
        input2Id=b.operand(bound["self"], dtype),
        outputId=b.result(node),
        alpha=b.number(bound["alpha"], dtype),
    )
    b.emit(Operation.Sub, table)


def division(operation: int, rounding: str | None) -> Lower:
    """output = self / other, rounded as the argument says, or as the operator does."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, dtype_of(node)) for o in _operands(node))
        mode = bind(node).get("rounding_mode", rounding)
        table = DivisionT(input1Id=first, input2Id=second, outputId=b.result(node), roundingMode=mode)
        b.emit(operation, table)

    return lower


def comparison(operation: int) -> Lower:
    """output = self op other, compared in the dtype that torch promotes to; bools as int32."""

    def lower(b: GraphBuilder, node: Node) -> None:
        operands = _operands(node)
        dtype = promoted(operands)
        dtype = torch.int32 if dtype == torch.bool else dtype
        first, second = (b.operand(o, dtype) for o in operands)
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def logical(operation: int) -> Lower:
    """output = self op other, on whether they are not zero."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, torch.bool) for o in _operands(node))
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def _maximum(b: GraphBuilder, node: Node) -> None:
    first, second = (operand(b, o, dtype_of(node)) for o in _operands(node))
    (-(-first).minimum(-second)).bind(node)


def _truncates(node: Node) -> str | None:
    mode = bind(node).get("rounding_mode", "trunc")
    return "it truncates" if mode == "trunc" else None


_NUMBER_RESULT: Final = result_dtypes(NUMBERS, "MPSGraph has no arithmetic on bool.", "convert to int32")
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "the runtime divides integers in float32, and gives a float32.", "convert to float32"
)
_BITS_RESULT: Final = result_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_NO_TRUNCATION: Final = not_in_fp16("Not in float16 if it truncates: the runtime stops there.", _truncates)
_COMPARISONS: Final = {name: name.capitalize() for name in ("eq", "ge", "gt", "le", "lt", "ne")}
_BITWISE: Final = {f"bitwise_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}
_LOGICAL: Final = {f"logical_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}
_FLOAT_POWER: Final = result_dtypes(
    FLOATS, "MPSGraph raises floating-point numbers only.", "convert to float32"
)

ROWS: Final = (
    *family(
        variants({"add": "Add", "sub": "Sub"}, "Tensor", "Scalar"),
        scaled,
        _NUMBER_RESULT,
        exact_number("alpha"),
    ),
    OperatorRow(overload("rsub.Scalar"), ("Sub",), _reversed_sub, (_NUMBER_RESULT, exact_number("alpha"))),
    *family(variants({"mul": "Mul"}, "Tensor", "Scalar"), arithmetic, _NUMBER_RESULT),
    *family(
        variants({"div": "Div"}, "Tensor", "Scalar", "Tensor_mode", "Scalar_mode"),
        lambda operation: division(operation, None),
        _FLOAT_RESULT,
        not_in_fp16(
            "Not in float16 with rounding_mode trunc: the runtime stops there.",
            lambda node: _truncates(node) if "rounding_mode" in bind(node) else None,
        ),
    ),
    *family(
        {"floor_divide": "Div", "remainder.Tensor": "Remainder", "remainder.Scalar": "Remainder"},
        lambda operation: division(operation, "floor"),
        _FLOAT_RESULT,
    ),
    *family(
        variants({"fmod": "Fmod"}, "Tensor", "Scalar"),
        lambda operation: division(operation, "trunc"),
        _FLOAT_RESULT,
        _NO_TRUNCATION,
    ),
    *family(variants({"pow": "Pow"}, "Tensor_Tensor", "Tensor_Scalar", "Scalar"), arithmetic, _FLOAT_POWER),
    *family({"minimum": "Minimum"}, arithmetic, _NUMBER_RESULT),
    OperatorRow(
        overload("maximum"),
        ("Neg", "Minimum"),
        _maximum,
        (result_dtypes(FLOATS, "the negation of an integer can overflow."),),
        note="-min(-self, -other): the runtime lacks Max, though the format has it",
    ),
    *family(variants(_COMPARISONS, "Tensor", "Scalar"), comparison),
    *family(variants(_BITWISE, "Tensor", "Scalar"), arithmetic, _BITS_RESULT),
    *family(_LOGICAL, logical, note="numbers become bool by comparison with zero"),
)
