# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Constant matrices on the right are packed in blocks of 4 by 4 before the first run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant
from delegatec.backends.vulkan.memory.representation import BUFFER, Representations
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.memory.representation import WIDTH as TEXTURE_ROWS
from delegatec.backends.vulkan.memory.sizes import has_dynamic_size, shape_of
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, constants, operator_row, resizing
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import rank_at_most, rank_of, same_dtypes
from delegatec.edge.symbols import is_multiple

_TEXEL: Final = 4
_MOST_HALF_TERMS: Final = 256
"""Terms of a sum in float16 with an error of at most 4e-3."""
_TILE: Final = (64, 32, 64)
"""Rows of the first matrix, inner dimension, and columns of the second one, of cooperative matrices."""
_CLEAN: Final = frozenset(
    overload(name)
    for name in (
        *("linear", "mm", "bmm", "addmm", "_softmax", "native_layer_norm", "embedding", "relu"),
        *("view", "permute", "select.int", "slice.Tensor", "expand", "cat", "constant_pad_nd", "gather"),
    )
)

_THREE: Final = resizing(
    "Results have at most three dimensions.",
    lambda node: f"rank {len(shape_of(node))}" if len(shape_of(node)) > 3 else None,
)
_SAME: Final = same_dtypes("the runtime does not promote.")


def _rows_of(node: Node) -> Node:
    bound = bind(node)
    source: Any = next(bound[name] for name in ("mat1", "input", "self") if name in bound)
    assert isinstance(source, Node)
    return source


def _row_packed(node: Node, is_constant: IsConstant) -> Representations:
    """Returns the representations for the rows of the first matrix.

    In a texture, the texels at the end of rows have padding, which products multiply by zero weights. It is
    zero in copied tensors and in results of products; an elementwise function of zero may be infinite.
    """
    source = _rows_of(node)
    length = source.meta["val"].shape[-1]
    if not is_multiple(length, _TEXEL):
        is_clean = source.op == "placeholder" or source.target in _CLEAN
        return ROW_PACKED if is_clean and isinstance(length, int) else BUFFER
    return TEXTURE_ROWS if has_dynamic_size(node) and _has_tiles(node, source) else ROW_PACKED


def _has_tiles(node: Node, source: Node) -> bool:
    """Whether a device may multiply tiles, which it chooses for the largest sizes, and which must be full."""
    rows, inner, columns = shape_of(node)[-2], shape_of(source)[-1], shape_of(node)[-1]
    tiles = zip((rows, inner, columns), _TILE, strict=True)
    return len(shape_of(node)) == 2 and all(size % tile == 0 for size, tile in tiles)


def product_group(allowed: Representations, node: Node, rows: Node, operands: Sequence[Node]) -> Group:
    """Returns the group of a product and its operands.

    The shaders add in the dtype of buffers, and in float32 for textures: 4,000 terms in float16 have an error
    of 2e-2.

    Args:
        allowed: the representations that the runtime supports.
        node: the product.
        rows: its first matrix.
        operands: the operands with the representation of the product.
    """
    loses_digits = dtype_of(node) == torch.float16 and shape_of(rows)[-1] > _MOST_HALF_TERMS
    return Group(allowed, tuple(operands), (0,), exact=TEXTURE_ROWS if loses_digits else None)


def _linear_memory(node: Node, is_constant: IsConstant) -> Sequence[Group]:
    source = bind(node)["input"]
    return (product_group(_row_packed(node, is_constant), node, source, (source,)),)


def _matrices(*packed: str) -> Demands:
    """Returns the demands of a product; operands of these names may be constants that it packs itself."""

    def demands(node: Node, is_constant: IsConstant) -> Sequence[Group]:
        bound = bind(node)
        operands = [
            each
            for name, each in bound.items()
            if isinstance(each, Node) and not (name in packed and is_constant(each))
        ]
        allowed = _row_packed(node, is_constant)
        return (product_group(allowed, node, _rows_of(node), tuple(dict.fromkeys(operands))),)

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
        resizes=(_THREE,),
    ),
    operator_row("mm", _matrices("mat2"), FLOATS, _SAME, resizes=()),
    operator_row("bmm", _matrices("mat2"), FLOATS, _SAME, resizes=()),
    operator_row(
        "addmm",
        _matrices("self", "mat2"),
        FLOATS,
        _SAME,
        rank_of("self", (1,), "the bias is a row."),
        Constraint("argument", "Neither factor is zero: ATen ignores the operand then.", _zero_factor),
        lower=_addmm,
        resizes=(),
    ),
)
