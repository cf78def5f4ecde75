# SPDX-License-Identifier: Apache-2.0
"""Elements of a dimension at constant indices, and weighted sums of them with constant weights."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.xnnpack.building import matmul_along_dim
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import operand
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.row import Constraint, KnownConstraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import SHAPES, TRUTHS
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraints import HAS_AXIS


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, places = b.of(bound["self"]), b.constant_value(bound["index"])
    assert places is not None  # by the row's constraint
    dim = positive(bound["dim"], len(b.shape_of(source)))
    b.alias(node, matmul_along_dim.selected(b, source, dim, places.reshape(-1).tolist()))


def _matmul(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["x"])
    dim = positive(bound["dim"], len(b.shape_of(source)))
    b.alias(
        node, matmul_along_dim.matmul_along_dim(b, source, dim, operand(b, bound["weights"], dtype_of(node)))
    )


def _computed_places(node: Node, facts: Facts) -> str | None:
    return "index is not constant" if facts.constant(bind(node)["index"]) is None else None


def _far_apart(node: Node, facts: Facts) -> str | None:
    bound = bind(node)
    places, sizes = facts.constant(bound["index"]), bound["self"].meta["val"].shape
    size = sizes[positive(bound["dim"], len(sizes))]
    if (
        places is None
        or not isinstance(size, int)
        or matmul_along_dim.is_selected(places.reshape(-1).tolist(), size)
    ):
        return None  # unknown values are checked by other constraints
    return f"{places.numel()} indices of {size} elements"


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


_KNOWN: Final = KnownConstraint("constant", "Indices are constants: XNNPACK has no gather.", _computed_places)
_NEAR: Final = KnownConstraint(
    "constant",
    "Constant indices form at most 24 ranges, or count x size <= 2^20: a one-hot product selects them.",
    _far_apart,
)
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
        known=(_KNOWN, _NEAR),
        note="slices; for many ranges a product with zeros and ones, in which an infinity makes others NaN",
    ),
    operator_row(
        XNNPACK.matmul_along_dim.default, _matmul, _ONE_UNKNOWN, resizes=True, note="a product with weights"
    ),
)
