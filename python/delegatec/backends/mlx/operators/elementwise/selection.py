# SPDX-License-Identifier: Apache-2.0
"""Bounds, and selection of elements."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.dtypes import NUMERIC
from delegatec.backends.mlx.operators.row import Lower, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, KNOWN_NUMBERS
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import result_dtypes


def _clip(low: str, high: str) -> Lower:
    """Returns the lowering of a call with these bounds. The upper one has precedence, as in ATen."""

    def lower(b: GraphBuilder, node: Node) -> None:
        bound, dtype = bind(node), dtype_of(node)
        limits = (None if bound[name] is None else b.operand(bound[name], dtype) for name in (low, high))
        b.emit(
            "Clip",
            x=b.operand(bound["self"], dtype),
            out=b.result(node),
            **dict(zip(("low", "high"), limits, strict=True)),
        )

    return lower


def _where(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    condition = b.operand(bound["condition"], torch.bool)
    first, second = (b.operand(bound[name], dtype) for name in ("self", "other"))
    b.emit("Where", condition=condition, x=first, y=second, out=b.result(node))


_NUMERIC_RESULT: Final = result_dtypes(NUMERIC, "MLX does not order bools.", "convert to int32")

ROWS: Final = (
    operator_row("clamp", _clip("min", "max"), _NUMERIC_RESULT, KNOWN_NUMBERS),
    operator_row("hardtanh", _clip("min_val", "max_val"), FLOAT_OPERANDS, KNOWN_NUMBERS),
    operator_row("where.self", _where),
)
