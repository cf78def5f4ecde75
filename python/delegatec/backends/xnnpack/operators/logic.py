# SPDX-License-Identifier: Apache-2.0
"""Logic on bools, which are zeros and ones; `rewrites/bools.py` has the comparisons."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, converted, reshaped, unary
from delegatec.backends.xnnpack.building.reductions import sum_of
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.row import Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import BOOLS, SUMMED
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.rules.reductions import reduced_dims

_row: Final = functools.partial(operator_row, resizes=True)


def _as_bool(b: GraphBuilder, node: Node) -> None:
    b.alias(node, converted(b, b.of(bind(node)["x"]), b.bool_dtype))


def _binary(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        b.alias(node, binary(b, operation, b.of(bound["self"]), b.of(bound["other"])))

    return lower


def _xor(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    difference = binary(b, Operation.Subtract, b.of(bound["self"]), b.of(bound["other"]))
    b.alias(node, unary(b, Operation.Absolute, difference))


def _not(b: GraphBuilder, node: Node) -> None:
    b.alias(node, binary(b, Operation.Subtract, 1.0, b.of(bind(node)["self"])))


def _any(b: GraphBuilder, node: Node) -> None:
    """Emits the sum along the dimensions, limited to one."""
    total = sum_of(b, b.of(bind(node)["self"]), reduced_dims(node))
    limited = clamp(b, b.reshaped.get(total, total), 0.0, 1.0)
    b.alias(node, reshaped(b, limited, node.meta["val"].shape))


def _rows() -> Iterator[OperatorRow]:
    for prefix in ("logical", "bitwise"):
        suffix = ".Tensor" if prefix == "bitwise" else ""
        yield _row(f"{prefix}_not", _not, dtypes=BOOLS)
        yield _row(f"{prefix}_and{suffix}", _binary(Operation.Multiply), dtypes=BOOLS)
        yield _row(f"{prefix}_or{suffix}", _binary(Operation.Maximum), dtypes=BOOLS)
        yield _row(f"{prefix}_xor{suffix}", _xor, dtypes=BOOLS)
    for each in ("any", "any.dim", "any.dims"):
        yield _row(each, _any, SUMMED, dtypes=BOOLS)
    yield _row(XNNPACK.as_bool.default, _as_bool, note="no operation")


ROWS: Final[tuple[OperatorRow, ...]] = tuple(_rows())
