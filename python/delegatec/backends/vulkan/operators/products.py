# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Constant matrices on the right are packed in blocks of 4 by 4 before the first run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant
from delegatec.backends.vulkan.memory.representation import BUFFER, Representations
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, constants, operator_row
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize.constraints import rank_at_most, rank_of, same_dtypes

_TEXEL: Final = 4
_CLEAN: Final = frozenset(
    overload(name)
    for name in (
        *("linear", "mm", "bmm", "addmm", "_softmax", "native_layer_norm", "embedding", "relu"),
        *("view", "permute", "select.int", "slice.Tensor", "expand", "cat", "constant_pad_nd", "gather"),
    )
)

_SAME: Final = same_dtypes("the runtime does not promote.")


def _row_packed(node: Node, is_constant: IsConstant) -> Representations:
    """Returns the representations for the rows of the first matrix.

    In a texture, the texels at the end of rows have padding, which products multiply by zero weights. It is
    zero in what is copied and in what products compute; an elementwise function of zero may be infinite.
    """
    bound = bind(node)
    source: Any = bound.get("mat1", bound.get("input", bound.get("self")))
    is_padded = shape_of(source)[-1] % _TEXEL != 0
    return BUFFER if is_padded and not (source.op == "placeholder" or source.target in _CLEAN) else ROW_PACKED


def _linear_memory(node: Node, is_constant: IsConstant) -> Sequence[Group]:
    return (Group(_row_packed(node, is_constant), (bind(node)["input"],), (0,)),)


def _matrices(*packed: str) -> Demands:
    """Returns the demands of a product; operands of these names may be constants that it packs itself."""

    def demands(node: Node, is_constant: IsConstant) -> Sequence[Group]:
        bound = bind(node)
        operands = [
            each
            for name, each in bound.items()
            if isinstance(each, Node) and not (name in packed and is_constant(each))
        ]
        return (Group(_row_packed(node, is_constant), tuple(dict.fromkeys(operands)), (0,)),)

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
        _linear_memory,
        FLOATS,
        _SAME,
        rank_at_most(4, "the shaders have four dimensions."),
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
