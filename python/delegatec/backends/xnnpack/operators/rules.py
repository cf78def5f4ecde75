# SPDX-License-Identifier: Apache-2.0
"""Limits of the format and of XNNPACK, as constraints."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.building.reductions import is_pooled
from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.edge.arguments import bind, values_of
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import (
    bounded_shapes,
    known_dtypes,
    no_empty_tensors,
    operand_dtypes,
    rank_at_most,
    result_dtypes,
    same_dtypes,
)
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.symbols import is_dynamic, is_scalar

aten = torch.ops.aten

MOST_RANK: Final = 6
TRUTHS: Final = FLOATS | {torch.bool}
"""The dtypes of values; bools are zeros and ones."""
# Operators that compute nothing for no rows: tests/oracle/xnnpack_no_rows_test.py.
_WITHOUT_ROWS: Final = frozenset(
    {
        aten.add.Scalar,
        aten.add.Tensor,
        aten.clamp.default,
        aten.div.Tensor,
        aten.exp.default,
        aten.gelu.default,
        aten.linear.default,
        aten.maximum.default,
        aten.minimum.default,
        aten.mul.Scalar,
        aten.mul.Tensor,
        aten.neg.default,
        aten.pow.Tensor_Scalar,
        aten.relu.default,
        aten.sigmoid.default,
        aten.silu.default,
        aten.slice.Tensor,
        aten.sub.Scalar,
        aten.sub.Tensor,
        aten.tanh.default,
    }
)
SHAPES: Final[tuple[Constraint[object], ...]] = (
    bounded_shapes(
        "the program plans memory for the largest.",
        lambda _: True,
        (),
        without_rows=(_WITHOUT_ROWS, ", but linear layers and functions of elements may have no rows"),
    ),
    no_empty_tensors("XNNPACK does not support them."),
    rank_at_most(MOST_RANK, "the limit of XNNPACK."),
)
UNIVERSAL: Final[tuple[Constraint[object], ...]] = (
    known_dtypes(
        TRUTHS,
        "Values are float32, float16 or bool: XNNPACK does not compute with integers.",
        "convert to float32",
    ),
    *SHAPES,
)


def _varies(node: Node, _: object) -> str | None:
    shapes = [value.shape for value in values_of(node) if is_dynamic(value.shape)]
    return f"has a dynamic shape {[str(size) for size in shapes[0]]}" if shapes else None


STATIC: Final = Constraint[object](
    "dynamic-shape",
    "Sizes are static: the runtime does not resize the results.",
    _varies,
    "make the size a constant of the model",
)
FLOAT_OPERANDS: Final = operand_dtypes(FLOATS, "XNNPACK computes in floating point.", "convert to float32")
FLOATS_OR_BOOLS: Final = operand_dtypes(
    TRUTHS, "XNNPACK computes in floating point, and bools are zeros and ones."
)
BOOLS: Final = operand_dtypes({torch.bool}, "it is an operator on bools.", "compare with 0")
FLOAT_RESULT: Final = result_dtypes(FLOATS, "XNNPACK computes in floating point.", "convert to float32")
SAME_DTYPES: Final = same_dtypes("XNNPACK does not promote.")


def _varying_number(node: Node, _: object) -> str | None:
    return "a dynamic scalar" if any(map(is_scalar, node.all_input_nodes)) else None


CONSTANT_SCALAR: Final = Constraint[object](
    "argument", "A scalar is constant: XNNPACK stores scalars in the graph.", _varying_number
)


def _varying_terms(node: Node, _: object) -> str | None:
    sizes, dims = bind(node)["self"].meta["val"].shape, reduced_dims(node)
    if node.target is aten.mean.dim and is_pooled(len(sizes), dims):
        return None
    varying = [sizes[dim] for dim in dims if not isinstance(sizes[dim], int)]
    if varying:
        return f"a dimension of {varying[0]} elements"
    if _is_of_rows(node, len(sizes), dims):
        return None
    outer = [size for size in sizes if not isinstance(size, int)]
    return f"the sizes {[str(size) for size in sizes]}" if len(outer) > 1 else None


def _is_of_rows(node: Node, rank: int, dims: list[int]) -> bool:
    """Whether a call sums rows: a product with a row of ones, which needs no view before it."""
    if node.target not in (aten.mean.dim, aten.sum.dim_IntList) or dims != [rank - 1]:
        return False
    return bool(bind(node)["keepdim"]) or rank < MOST_RANK


SUMMED: Final = Constraint[object](
    "dynamic-shape",
    "Reduced dimensions are static, and at most one other size is dynamic, unless rows are summed.",
    _varying_terms,
    "make the size a constant of the model",
)
