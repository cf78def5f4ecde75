# SPDX-License-Identifier: Apache-2.0
"""Elements of a dimension at constant indices, and weighted sums of them with constant weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    concatenated,
    fully_connected,
    multiplied,
    operand,
    reshaped,
    sliced,
)
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.row import Constraint, KnownConstraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import SHAPES, TRUTHS
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraints import HAS_AXIS

_MOST_SLICES: Final = 24
"""With more ranges, a product with zeros and ones is faster than their concatenation."""


def _select(b: GraphBuilder, node: Node) -> None:
    """Concatenates ranges of consecutive indices."""
    bound = bind(node)
    source, index = b.of(bound["self"]), b.constant_value(bound["index"])
    assert index is not None  # by the row's constraint
    dim, ranges = positive(bound["dim"], len(b.shape_of(source))), _ranges(index.reshape(-1).tolist())
    slices = {each: sliced(b, source, dim, *each) for each in dict.fromkeys(ranges)}
    b.alias(node, concatenated(b, [slices[each] for each in ranges], dim))


def _ranges(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Returns start and end of each run of consecutive indices."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found


def _matmul(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, weights = b.of(bound["x"]), operand(b, bound["weights"], dtype_of(node))
    shape = b.shape_of(source)
    dim = positive(bound["dim"], len(shape))
    before, behind = shape[:dim], shape[dim + 1 :]
    if not behind:
        b.alias(node, fully_connected(b, source, weights))
        return
    rows = reshaped(b, source, [*before, shape[dim], math.prod(behind)])
    b.alias(node, reshaped(b, multiplied(b, weights, rows), node.meta["val"].shape))


def _computed_index(node: Node, facts: Facts) -> str | None:
    return "index is not constant" if facts.constant(bind(node)["index"]) is None else None


def _many_ranges(node: Node, facts: Facts) -> str | None:
    index = facts.constant(bind(node)["index"])
    if index is None:
        return None  # rejected by another constraint
    count = len(_ranges(index.reshape(-1).tolist()))
    return f"{count} ranges" if count > _MOST_SLICES else None


def _other_dtype(node: Node, _: object) -> str | None:
    dtype = dtype_of(bind(node)["self"])
    return None if dtype in TRUTHS else f"self of {dtype}"


def _varying_sizes(node: Node, _: object) -> str | None:
    source, *_ = bind(node).values()
    sizes = source.meta["val"].shape
    dim = positive(bind(node)["dim"], len(sizes))
    varying = [size for size in sizes if not isinstance(size, int)]
    if not isinstance(sizes[dim], int):
        return f"a dimension of {sizes[dim]} elements"
    return f"the sizes {[str(size) for size in sizes]}" if len(varying) > 1 else None


_KNOWN: Final = KnownConstraint("constant", "Indices are constants: XNNPACK has no gather.", _computed_index)
_FEW: Final = KnownConstraint("constant", "Indices form at most 24 ranges.", _many_ranges)
_DTYPE: Final = Constraint(
    "dtype", "self is float16, float32 or bool: XNNPACK computes in floating point only.", _other_dtype
)
_ONE_UNKNOWN: Final = Constraint(
    "dynamic-shape",
    "The dimension is static, and at most one other size is dynamic: a reshape infers one.",
    _varying_sizes,
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "index_select",
        _select,
        HAS_AXIS,
        *SHAPES,
        _ONE_UNKNOWN,
        dtypes=_DTYPE,
        resizes=True,
        computes=False,
        known=(_KNOWN, _FEW),
        note="a concatenation of slices",
    ),
    operator_row(
        XNNPACK.matmul_along_dim.default, _matmul, _ONE_UNKNOWN, resizes=True, note="a product with weights"
    ),
)
