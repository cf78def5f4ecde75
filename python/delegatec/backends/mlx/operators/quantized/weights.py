# SPDX-License-Identifier: Apache-2.0
"""Weights that are quantized in groups of columns: dequantized as a whole, by rows, or in matrix products.

Products and gathers find the quantized operands of a dequantized weight here, and the call that dequantizes
it has no uses then. All other quantization reaches the delegate as arithmetic
(`edge/legalize/rules/quantized.py`), that of activations at run time included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT16_MAX
from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import reshaped
from delegatec.backends.mlx.building.packing import MODE, Packing, packing_of
from delegatec.backends.mlx.building.values import Array, Index, Int
from delegatec.backends.mlx.operators.row import ByFacts, operator_row
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.rules.quantized import QUANTIZED, has_all_digits
from delegatec.edge.quantization.constant import INTEGERS, Constant, QuantizedConstant, quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of

aten = torch.ops.aten

_DEQUANTIZING: Final = (DEQUANTIZE_BLOCKS, aten._to_copy.default)
"""Calls that dequantize weights; a conversion of integers does with the scale 1."""
_MATRIX: Final = 2
_MATRICES: Final = 3
"""Dimensions of a weight, and of the weights of several experts."""


@dataclass(frozen=True)
class Quantized:
    """The operands of the format's nodes with quantized weights.

    Attributes:
        w: the packed weight.
        scales: one for each row and group.
        biases: likewise.
        packing: how it is packed.
    """

    w: Array
    scales: Array
    biases: Array
    packing: Packing

    @property
    def dtype(self) -> torch.dtype:
        """dtype of dequantized values."""
        return self.scales.dtype

    def fields(self) -> dict[str, Any]:
        """Returns the fields of a node."""
        found = {"w": self.w, "scales": self.scales, "biases": self.biases}
        return {**found, "groupSize": self.packing.group, "bits": self.packing.bits, "mode": MODE}


def quantized_matrix(b: GraphBuilder, node: Node) -> tuple[Quantized, bool] | None:
    """Returns the operands of a matrix that is dequantized, and whether it is transposed; None for others."""
    if node.target is aten.permute.default and [dim % 2 for dim in bind(node)["dims"]] == [1, 0]:
        found = quantized_matrix(b, bind(node)["self"])
        return None if found is None else (found[0], not found[1])
    weight = quantized_weight(b, node)
    return None if weight is None or len(weight.w.shape) != _MATRIX else (weight, False)


def quantized_weight(b: GraphBuilder, node: Node) -> Quantized | None:
    """Returns the operands of a constant that is dequantized as a whole; None for others."""
    table = _table(node, b.constant_value)
    if table is None or table.rows is not None:
        return None
    return _operands(b, table.matrix, dtype_of(node))


def product(
    b: GraphBuilder, shape: Sequence[Any], x: Array, weight: Quantized, name: str, **fields: Any
) -> Array:
    """Emits the product of rows and a quantized weight, in the dtype of the rows.

    Args:
        b: the graph.
        shape: of the result.
        x: the rows.
        weight: the weight.
        name: the node of the format.
        **fields: its other fields.
    """
    out = b.temporary(shape, torch.promote_types(x.dtype, weight.dtype))
    b.emit(name, x=x, out=out, **fields, **weight.fields())
    return b.converted(out, x.dtype)


@dataclass(frozen=True)
class _Table:
    """A quantized matrix, or several, and the indices of the rows that are dequantized, if not all are."""

    matrix: QuantizedConstant
    rows: Node | None


def _table(node: Node, constant: Constant) -> _Table | None:
    """Returns what a call dequantizes; None if it cannot be packed."""
    if node.target not in _DEQUANTIZING:
        return None
    found = quantized_constant(node, constant)
    if found is None and node.target is not DEQUANTIZE_BLOCKS:
        return None
    table = _gathered(node, constant) if found is None else _Table(found, None)
    if (
        table is None
        or table.matrix.values.dim() not in (_MATRIX, _MATRICES)
        or packing_of(table.matrix) is None
    ):
        return None
    return table


def _gathered(node: Node, constant: Constant) -> _Table | None:
    """Returns the table whose rows are gathered before they are dequantized; see `gather_rows_first`."""
    found = operands_of(node)
    operands = [each for each in (found.x, found.scale, found.zero_point) if isinstance(each, Node)]
    if any(each.target is not aten.index_select.default for each in operands) or len(operands) < 2:
        return None
    tables, dims, rows = zip(*(bind(each).values() for each in operands), strict=True)
    values, scales, *zeros = (constant(each) for each in tables)
    if values is None or scales is None or any(dims) or len({*rows}) > 1 or found.block[0] != 1:
        return None
    if values.dim() != 2 or values.dtype not in INTEGERS or (zeros and zeros[0] is None):
        return None
    shape = (values.shape[0], values.shape[1] // int(found.block[1]))
    shifts = zeros[0].reshape(shape) if zeros and zeros[0] is not None and zeros[0].any() else None
    block = (1, int(found.block[1]))
    matrix = QuantizedConstant(
        node, tables[0], values.detach(), block, scales.detach().reshape(shape), shifts
    )
    return _Table(matrix, rows[0])


def _operands(b: GraphBuilder, matrix: QuantizedConstant, dtype: torch.dtype) -> Quantized:
    """Adds the constants of a weight.

    Scales that serve several groups of the format are stored once, and biases of weights without zero points
    are not stored: the runtime computes them when it loads the delegate.
    """
    packing = packing_of(matrix)
    assert packing is not None
    scales, zeros = matrix.scales.to(torch.float32), matrix.zero_points
    if dtype != torch.float32 and not _fits_half(scales, packing):
        dtype = torch.float32
    *rows, columns = matrix.values.shape
    shape = (*rows, columns // packing.group)
    repeats = [
        ("Repeat", "x", {"repeats": Int(count), "axis": axis})
        for axis, count in enumerate(packing.repeats)
        if count > 1
    ]

    def biases() -> Array:
        if zeros is not None:
            shifts = -(zeros.to(torch.float64) + packing.offset) * scales
            return b.prepared(shifts.to(dtype), shape, repeats)
        factor = b.scalar(float(-packing.offset), dtype)
        return b.prepared(scales.to(dtype), shape, [("Multiply", "a", {"b": factor}), *repeats])

    key = matrix.source, matrix.call, dtype
    return Quantized(
        b.packed(matrix.source, packing),
        b.shared(("scales", *key), lambda: b.prepared(scales.to(dtype), shape, repeats)),
        b.shared(("biases", *key), biases),
        packing,
    )


def _fits_half(scales: torch.Tensor, packing: Packing) -> bool:
    """Whether half precision has all digits of scales, and the range of biases."""
    largest = scales.abs().max().item() * (1 << packing.bits)
    return has_all_digits(scales) and largest <= FLOAT16_MAX


def _dequantize(b: GraphBuilder, node: Node) -> None:
    table = _table(node, b.constant_value)
    assert table is not None
    found = _operands(b, table.matrix, dtype_of(node))
    shape = node.meta["val"].shape
    if table.rows is not None:
        # in the shape of the indices, which the call after it gives the rows
        indices = bind(table.rows)["self"] if table.rows.target is aten.view.default else table.rows
        rows = b.of(indices)
        w, scales, biases = (_taken(b, each, rows) for each in (found.w, found.scales, found.biases))
        found = Quantized(w, scales, biases, found.packing)
        shape = (*rows.shape, shape[1])
    out = b.temporary(shape, found.dtype)
    b.emit("Dequantize", out=out, **found.fields())
    result = b.converted(out, dtype_of(node))
    flat = reshaped(b, result, node.meta["val"].shape)
    if flat is not result:
        b.reshaped[flat] = result
    b.alias(node, flat)


def _taken(b: GraphBuilder, table: Array, rows: Array) -> Array:
    out = b.temporary((*rows.shape, *table.shape[1:]), table.dtype)
    b.emit("Take", x=table, index=Index(rows), axis=0, out=out)
    return out


def _unpackable(node: Node, facts: Facts) -> str | None:
    """Returns why the format has no form of a weight."""
    if _table(node, facts.constant) is not None:
        return None
    found = operands_of(node)
    return f"a weight of shape {list(shape_of(found.x))} in blocks of {list(found.block)}"


ROWS: Final = (
    operator_row(
        DEQUANTIZE_BLOCKS,
        _dequantize,
        QUANTIZED,
        note="as an operand of products, and of gathers of rows, without a dequantized weight in memory",
        preserved=True,
        known=(
            ByFacts(
                "packed",
                "The weight is a constant matrix, or several, with groups of a multiple of 32 columns, and a "
                "range of at most 256 values.",
                _unpackable,
            ),
        ),
    ),
)
