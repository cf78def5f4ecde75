# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Constant matrices on the right are packed in blocks of 4 by 4 before the first run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant, first_operand
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, constants, operator_row
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize.constraints import rank_of, same_dtypes

_SAME: Final = same_dtypes("the runtime does not promote.")


def _matrices(*packed: str) -> Demands:
    """Returns the demands of a product; operands of these names may be constants that it packs itself."""

    def demands(node: Node, is_constant: IsConstant) -> Sequence[Group]:
        bound = bind(node)
        operands = [
            each
            for name, each in bound.items()
            if isinstance(each, Node) and not (name in packed and is_constant(each))
        ]
        return (Group(ROW_PACKED, tuple(dict.fromkeys(operands)), (0,)),)

    return demands


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    operands = [b.of(bound[name]) for name in ("self", "mat1", "mat2")]
    factors = [b.scalar(float(bound[name])) for name in ("beta", "alpha")]
    b.call("aten.addmm.default", *operands, *factors, b.result(node))


def _batches(node: Node, _: object) -> str | None:
    """The shaders of linear have one batch dimension."""
    shape = shape_of(node)
    return f"a result of shape {list(shape)}" if math.prod(shape[:-3]) > 1 else None


def _zero_factor(node: Node, _: object) -> str | None:
    return next((f"{name} is 0" for name in ("alpha", "beta") if bind(node)[name] == 0), None)


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "linear",
        first_operand(ROW_PACKED),
        FLOATS,
        _SAME,
        rank_of("weight", (2,), "a single output does not have a dimension."),
        Constraint("rank", "Products have one batch dimension.", _batches),
        known=(constants("weight", "bias"),),
        preserved=True,
    ),
    operator_row("mm", _matrices("mat2"), FLOATS, _SAME),
    operator_row("bmm", _matrices("mat2"), FLOATS, _SAME),
    operator_row(
        "addmm",
        _matrices("self", "mat2"),
        FLOATS,
        _SAME,
        rank_of("self", (1,), "the bias is a row."),
        Constraint("argument", "Neither factor is zero: ATen ignores the operand then.", _zero_factor),
        lower=_addmm,
    ),
)
