# SPDX-License-Identifier: Apache-2.0
"""Matrix products: MATMUL multiplies batches of matrices."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.dtypes import FLOATS, FLOATS_8, TO_TOSA
from delegatec.backends.arm.operators.row import operator_row, zero_point
from delegatec.edge.arguments import bind, dtype_of, shape_of

_ACCUMULATORS: Final = {
    DType.INT8: DType.INT32,
    DType.INT16: DType.INT48,
    DType.FP8E4M3: DType.FP16,
    DType.FP8E5M2: DType.FP16,
}


def _multiplied(b: GraphBuilder, node: Node, first: Value, second: Value, zeros: tuple[int, int]) -> Value:
    """Returns the product of batches; half precision is added in FP32."""
    shape = (first.shape[0], first.shape[1], second.shape[2])
    points = [zero_point(b, each, zero) for each, zero in zip((first, second), zeros, strict=True)]
    return b.emit(
        "MATMUL", first, second, *points, dtype=_ACCUMULATORS.get(first.dtype, DType.FP32), shape=shape
    )


def _product(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    first, second = (b.ranked(b.of(bound[name]), 3) for name in ("self", "mat2"))
    product = _multiplied(b, node, first, second, (0, 0))
    b.alias(node, b.reshaped(b.cast(product, TO_TOSA[dtype_of(node)]), shape_of(node)))


def _integers(b: GraphBuilder, node: Node) -> None:
    x, y, *zeros = bind(node).values()
    b.alias(node, _multiplied(b, node, b.of(x), b.of(y), (zeros[0], zeros[1])))


ROWS: Final = (
    operator_row("mm", _product, FLOATS | FLOATS_8),
    operator_row("bmm", _product, FLOATS | FLOATS_8),
    operator_row(TOSA.matmul.default, _integers, {torch.int8, torch.int16}),
)
