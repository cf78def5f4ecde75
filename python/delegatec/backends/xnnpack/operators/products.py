# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.columns import column_layer
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.groups import grouped_layer
from delegatec.backends.xnnpack.building.layers import is_dynamically_quantized, linear_operands
from delegatec.backends.xnnpack.building.operations import binary, converted, fully_connected, multiplied
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import SAME_DTYPES
from delegatec.backends.xnnpack.quantized.groups import grouped_weight
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import argument, rank_of
from delegatec.edge.symbols import same_sizes


def _linear(b: QuantizedBuilder, node: Node) -> None:
    bound = bind(node)
    x = bound["input"]
    weight = None if is_dynamically_quantized(x) else grouped_weight(bound["weight"], b.constant_value)
    if weight is not None:
        out = grouped_layer(b, node, weight)
    elif is_dynamically_quantized(x) and bind(x)["dims"] > 1:
        out = column_layer(b, node, x)
    else:
        out = fully_connected(b, *linear_operands(b, node))
    # layers with quantized weights compute in float32 also in float16 models
    b.alias(node, converted(b, out, dtype_of(node)))


def _mm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, fully_connected(b, b.of(bound["self"]), b.of(bound["mat2"]), is_transposed=True))


def _addmm(b: GraphBuilder, node: Node) -> None:
    """Adds a row as a bias, and anything else afterwards."""
    bound = bind(node)
    bias: Any = bound["self"]
    columns = shape_of(node)[-1]
    first, second, added = (b.of(bound[name]) for name in ("mat1", "mat2", "self"))
    is_row = same_sizes(shape_of(bias), (columns,))
    product = fully_connected(b, first, second, added if is_row else NO_VALUE, is_transposed=True)
    if not is_row:
        product = binary(b, Operation.Add, product, added)
    b.alias(node, product)


def _bmm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, multiplied(b, b.of(bound["self"]), b.of(bound["mat2"])))


def _matmul(b: GraphBuilder, node: Node) -> None:
    """Multiplies matrices whose batch dimensions broadcast."""
    first, second = bind(node).values()
    is_transposed = node.target is XNNPACK.matmul_transposed.default
    b.alias(node, multiplied(b, b.of(first), b.of(second), is_transposed=is_transposed))


def _vectors(node: Node, _: object) -> str | None:
    ranks = [len(shape_of(each)) for each in bind(node).values()]
    return f"operands of the ranks {ranks}" if len({*ranks}) > 1 or ranks[0] < 2 else None


_FACTORS: Final = (
    argument("alpha", lambda value: value == 1, "alpha is 1."),
    argument("beta", lambda value: value == 1, "beta is 1."),
)
_MATRICES: Final = Constraint("rank", "Operands are batches of matrices of one rank.", _vectors)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "linear",
        _linear,
        SAME_DTYPES,
        rank_of("weight", (2,), "a single output does not have a dimension."),
        resizes=True,
        preserved=True,
    ),
    operator_row("mm", _mm, SAME_DTYPES, resizes=True),
    operator_row("addmm", _addmm, SAME_DTYPES, *_FACTORS, resizes=True),
    operator_row("bmm", _bmm, SAME_DTYPES, resizes=True),
    *(
        operator_row(target, _matmul, SAME_DTYPES, _MATRICES, resizes=True, note=note)
        for target, note in (
            ("matmul", "of batches with several dynamic sizes, and of attention"),
            (XNNPACK.matmul_transposed.default, "of attention"),
        )
    ),
)
