# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic and selection, on bools that are zeros and ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.xnnpack.building.bool_emulation import (
    is_equal,
    is_greater,
    is_infinity,
    negated,
    where,
)
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, converted, operand, reshaped, unary
from delegatec.backends.xnnpack.building.reductions import sum_of
from delegatec.backends.xnnpack.operators.row import Constraint, Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import BOOLS, FIXED_NUMBER, FLOATS_OR_BOOLS, SUMMED
from delegatec.edge.arguments import bind, dtype_of, promoted
from delegatec.edge.legalize.rules.reductions import reduced_dims

_row: Final = functools.partial(operator_row, resizes=True)
_Compare = Callable[[GraphBuilder, int, int], int]

_COMPARISONS: Final[dict[str, _Compare]] = {
    "eq": is_equal,
    "ne": lambda b, x, y: negated(b, is_equal(b, x, y)),
    "gt": is_greater,
    "lt": lambda b, x, y: is_greater(b, y, x),
    "ge": lambda b, x, y: negated(b, is_greater(b, y, x)),
    "le": lambda b, x, y: negated(b, is_greater(b, x, y)),
}
_INFINITE: Final[dict[str, tuple[bool, bool]]] = {
    # whether plus infinity satisfies a comparison with plus infinity, and whether other values do
    "eq": (True, False),
    "ne": (False, True),
    "gt": (False, False),
    "lt": (False, True),
    "ge": (True, False),
    "le": (True, True),
}


def _common(node: Node) -> torch.dtype:
    """Returns the dtype in which a comparison is computed; bools count as floats."""
    bound = bind(node)
    dtype = promoted([bound["self"], bound["other"]])
    return dtype if dtype.is_floating_point else torch.float32


def _comparison(name: str) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        bound, dtype = bind(node), _common(node)
        first, other = operand(b, bound["self"], dtype), bound["other"]
        if isinstance(other, float) and math.isnan(other):
            result = _everywhere(b, is_infinity(b, first, 1), name == "ne")
        elif isinstance(other, float) and math.isinf(other):
            result = _with_infinity(b, name, first, 1 if other > 0 else -1)
        else:
            result = _COMPARISONS[name](b, first, operand(b, other, dtype))
        b.alias(node, converted(b, result, b.truth_dtype))

    return lower


def _with_infinity(b: GraphBuilder, name: str, id: int, sign: int) -> int:
    if sign < 0 and name in ("gt", "lt", "ge", "le"):
        name = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}[name]
    at, elsewhere = _INFINITE[name]
    found = is_infinity(b, id, sign)
    if at == elsewhere:
        return _everywhere(b, found, at)
    return found if at else negated(b, found)


def _everywhere(b: GraphBuilder, truth: int, value: bool) -> int:
    """Broadcasts one bool to the sizes of others."""
    return binary(b, Operation.Add, binary(b, Operation.Multiply, truth, 0.0), float(value))


def _operands(b: GraphBuilder, node: Node) -> tuple[int, int]:
    bound = bind(node)
    return b.of(bound["self"]), b.of(bound["other"])


def _binary(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        b.alias(node, binary(b, operation, *_operands(b, node)))

    return lower


def _xor(b: GraphBuilder, node: Node) -> None:
    b.alias(node, unary(b, Operation.Absolute, binary(b, Operation.Subtract, *_operands(b, node))))


def _not(b: GraphBuilder, node: Node) -> None:
    b.alias(node, negated(b, b.of(bind(node)["self"])))


def _where(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    dtype = b.truth_dtype if dtype == torch.bool else dtype
    values = (operand(b, bound[name], dtype) for name in ("self", "other"))
    b.alias(node, where(b, b.of(bound["condition"]), *values))


def _nan_choice(node: Node, _: object) -> str | None:
    bound = bind(node)
    return "a value is NaN" if any(_is_nan(bound[name]) for name in ("self", "other")) else None


def _is_nan(node: Node) -> bool:
    number = bind(node)["fill_value"] if node.target is torch.ops.aten.full.default else None
    return isinstance(number, float) and math.isnan(number)


_NO_NAN: Final = Constraint(
    "argument", "Neither value is NaN: the maximum of a number and NaN may be NaN.", _nan_choice
)


def _has_one(b: GraphBuilder, node: Node, source: int) -> int:
    """Emits whether the sum along the dimensions is at least one."""
    total = sum_of(b, source, reduced_dims(node))
    return reshaped(b, clamp(b, total, 0.0, 1.0), node.meta["val"].shape)


def _any(b: GraphBuilder, node: Node) -> None:
    b.alias(node, _has_one(b, node, b.of(bind(node)["self"])))


def _rows() -> Iterator[OperatorRow]:
    for name in _COMPARISONS:
        for each in variants({name: ""}, "Tensor", "Scalar"):
            yield _row(each, _comparison(name), FIXED_NUMBER, dtypes=FLOATS_OR_BOOLS, note=_COMPARED)
    yield _row("where.self", _where, _NO_NAN, dtypes=FLOATS_OR_BOOLS, note=_CHOSEN)
    for prefix in ("logical", "bitwise"):
        suffix = ".Tensor" if prefix == "bitwise" else ""
        yield _row(f"{prefix}_not", _not, dtypes=BOOLS)
        yield _row(f"{prefix}_and{suffix}", _binary(Operation.Multiply), dtypes=BOOLS)
        yield _row(f"{prefix}_or{suffix}", _binary(Operation.Maximum), dtypes=BOOLS)
        yield _row(f"{prefix}_xor{suffix}", _xor, dtypes=BOOLS)
    for each in ("any", "any.dim", "any.dims"):
        yield _row(each, _any, SUMMED, dtypes=BOOLS)


_COMPARED: Final = (
    "a product of the difference, clamped to 0 and 1; numbers that differ by less than the least normal one "
    "are equal, and results for NaN depend on the CPU"
)
_CHOSEN: Final = "the maximum of both, one of which is minus infinity; NaN may become a number"

ROWS: Final[tuple[OperatorRow, ...]] = tuple(_rows())
