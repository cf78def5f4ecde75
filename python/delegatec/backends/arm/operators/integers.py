# SPDX-License-Identifier: Apache-2.0
"""Integer operators of TOSA's dialect, and division of integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, RoundingMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dialect import INT48, TOSA
from delegatec.backends.arm.dtypes import INTEGERS, TO_TOSA
from delegatec.backends.arm.operators.elementwise import compute
from delegatec.backends.arm.operators.row import Constraint, Lower, operator_row
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import argument, result_dtypes

_ROUNDING: Final = {
    "single": RoundingMode.SINGLE_ROUND,
    "double": RoundingMode.DOUBLE_ROUND,
    "inexact": RoundingMode.INEXACT_ROUND,
}
_INTEGERS: Final = INTEGERS | {torch.uint8}


def _rescale(b: GraphBuilder, node: Node) -> None:
    given = bind(node)
    value = b.of(given["x"])
    if dtype_of(given["x"]) == INT48:
        value = replace(value, dtype=DType.INT48)
    kind = TO_TOSA[dtype_of(node)]
    is_wide = value.dtype != DType.INT48
    multiplier = torch.tensor(given["multiplier"], dtype=torch.int32 if is_wide else torch.int16)
    shift = torch.tensor(given["shift"], dtype=torch.int8)
    b.result(
        node,
        "RESCALE",
        *(value, b.tensor(multiplier), b.tensor(shift)),
        *(_zero_point(b, value.dtype, given["in_zero"]), _zero_point(b, kind, given["out_zero"])),
        scale32=is_wide,
        rounding_mode=_ROUNDING[given["rounding"]],
        per_channel=given["per_channel"],
        input_unsigned=given["input_unsigned"],
        output_unsigned=given["output_unsigned"],
    )


def _zero_point(b: GraphBuilder, kind: int, zero: int) -> Value:
    if kind == DType.INT48:
        return b.int48_scalar(zero)
    return b.scalar(zero, kind)


def _last_axis(node: Node, _: object) -> str | None:
    given: dict[str, Any] = bind(node)
    rank = len(shape_of(given["x"]))
    is_last = rank == 0 or given["axis"] % rank == rank - 1
    return f"channels of dimension {given['axis']}" if given["per_channel"] and not is_last else None


def _table(b: GraphBuilder, node: Node) -> None:
    b.result(node, "TABLE", *(b.of(each) for each in bind(node).values()))


def _bits(name: str, **attributes: Any) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        b.result(node, name, *(b.of(each) for each in bind(node).values()), **attributes)

    return lower


def _truncated_quotient(b: GraphBuilder, node: Node) -> None:
    first, second, *_ = bind(node).values()
    compute(b, node, "INTDIV", (first, second))


_AXIS: Final[Constraint] = Constraint("argument", "Channels are the last dimension.", _last_axis)
_TRUNC: Final = argument("rounding_mode", lambda mode: mode == "trunc", "INTDIV truncates.")

ROWS: Final = (
    operator_row(TOSA.rescale.default, _rescale, _INTEGERS, _AXIS),
    operator_row(TOSA.table.default, _table, _INTEGERS),
    operator_row(TOSA.clz.default, _bits("CLZ"), INTEGERS),
    operator_row(TOSA.shift_left.default, _bits("LOGICAL_LEFT_SHIFT"), INTEGERS),
    operator_row(TOSA.shift_right.default, _bits("ARITHMETIC_RIGHT_SHIFT", round=True), INTEGERS),
    *(
        operator_row(
            name, _truncated_quotient, INTEGERS, _TRUNC, result_dtypes(INTEGERS, "INTDIV divides integers.")
        )
        for name in ("div.Tensor_mode", "div.Scalar_mode")
    ),
)
