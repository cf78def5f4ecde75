# SPDX-License-Identifier: Apache-2.0
"""Products with quantized weights, and gathers from quantized tables, by the runtime's operators for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.fusion.matrix import matrix_of
from delegatec.backends.vulkan.operators.rewrites.quantized import halves, pack
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind, dtype_of, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import QuantizedConstant, quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of

aten = torch.ops.aten

_TEXEL: Final = 4
_BLOCK: Final = 8
_EMBEDDING: Final = 32
_INT4: Final = (-8, 7)
_INT8: Final = (-128, 127)


def fuse_weights(program: EdgeProgram) -> bool:
    """Replaces matrix products whose second matrix is a dequantized constant.

    Args:
        program: a private program, edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, _FUSED)


def _linear(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    matrix = matrix_of(builder.program, bound["weight"])
    return (
        None if matrix is None else _product(builder, bound["input"], matrix, bound["bias"], shape_of(node))
    )


def is_pointwise(node: Node) -> bool:
    """Whether a convolution of images multiplies the channels of each pixel by a matrix."""
    bound = bind(node)
    window = [each(bound[name], 2) for name in ("stride", "padding", "output_padding")]
    kernel = shape_of(bound["weight"])[2:]
    return kernel == (1, 1) and window == [[1, 1], [0, 0], [0, 0]] and bound["groups"] == 1


def _convolution(builder: Builder, node: Node) -> Node | None:
    """Multiplies channels, as the last dimension, by the matrix of a pointwise convolution."""
    bound = bind(node)
    constants = builder.program.constants
    found = quantized_constant(bound["weight"], lambda operand: constants.get(operand.name))
    if found is None or not is_pointwise(node) or bound["transposed"]:
        return None
    matrix = found.mapped(lambda part: part.flatten(1), found.block[:2]).by_row()
    x = value_of(builder, bound["input"]).permute(0, 2, 3, 1)
    batch, columns, height, width = shape_of(node)
    shape = (batch, height, width, columns)
    product = _product(builder, x.node, matrix, bound["bias"], shape)
    return None if product is None else Value(builder, product).permute(0, 3, 1, 2).node


def _mm(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    matrix = matrix_of(builder.program, bound["mat2"], transposed=True)
    return None if matrix is None else _product(builder, bound["self"], matrix, None, shape_of(node))


def _addmm(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    if bound["alpha"] != 1 or bound["beta"] != 1 or len(shape_of(bound["self"])) != 1:
        return None
    matrix = matrix_of(builder.program, bound["mat2"], transposed=True)
    return None if matrix is None else _product(builder, bound["mat1"], matrix, bound["self"], shape_of(node))


def _embedding(builder: Builder, node: Node) -> Node | None:
    """Dequantizes rows of a 4-bit table while they are gathered; see `gather_rows_first`."""
    found = operands_of(node)
    if found.block[0] != 1 or len(shape_of(node)) != 2:
        return None
    operands = (found.x, found.scale, found.zero_point)
    quantized_values, scales, zeros = (_gathered_from(builder, each) for each in operands)
    if quantized_values is None or scales is None or (found.zero_point is not None and zeros is None):
        return None
    if (zeros is not None and bool(zeros[1].any())) or scales[2] is not quantized_values[2]:
        return None
    source, table_values, indices = quantized_values
    table_scales = scales[1].detach().reshape(len(table_values), -1)
    low, high = map(int, table_values.aminmax())
    width = shape_of(node)[1] // table_scales.shape[1]
    if low < _INT4[0] or high > _INT4[1] or shape_of(node)[1] % _EMBEDDING or width % _TEXEL:
        return None
    return builder.call(
        RUNTIME.embedding_q4gsw.default,
        builder.derived(source, pack(table_values.detach(), high_first=True), torch.uint8),
        builder.derived(scales[0], table_scales.to(torch.float32), dtype_of(node)),
        *(width, indices, False),
        val=node.meta["val"],
    )


def _gathered_from(builder: Builder, node: Any) -> tuple[Node, Tensor, Node] | None:
    """Returns a constant, its value, and the indices of rows that a node gathers from it."""
    if not isinstance(node, Node) or node.target is not aten.index_select.default:
        return None
    source, dim, indices = bind(node).values()
    constant = builder.program.constants.get(source.name)
    return None if constant is None or dim != 0 else (source, constant, indices)


def _product(
    builder: Builder, node: Node, matrix: QuantizedConstant, bias: Node | None, shape: tuple[int, ...]
) -> Node | None:
    """Returns a product with a 4-bit or 8-bit weight; None if the runtime has none."""
    x = value_of(builder, node)
    if x.dtype not in FLOATS:
        return None
    rows = x.view(x.numel // x.shape[-1], x.shape[-1])
    constant = bias is None or bias.name in builder.program.constants
    product = _multiplied(rows, matrix, bias if constant else None)
    if product is None:
        return None
    result = product.view(*shape)
    return result.node if constant else (result + value_of(builder, bias)).node  # type: ignore[arg-type]


def _multiplied(x: Value, matrix: QuantizedConstant, bias: Node | None) -> Value | None:
    rows = matrix.values.shape[1]
    low, high = matrix.range
    if low < _INT8[0] or high > _INT8[1]:
        return None
    grouped = matrix.block[1] % _TEXEL == 0 and rows % _BLOCK == 0
    if grouped and _INT4[0] <= low and high <= _INT4[1]:
        parts = [(matrix.values, 1)]
        shift = 0
    elif matrix.block[1] == rows:
        return _shifted(_int8(x, matrix, bias), x, matrix, 0)
    elif grouped:
        parts, shift = halves(matrix.values), _BLOCK
    else:
        return None
    total: Value | None = None
    for quantized_values, factor in parts:
        part = _int4(x, matrix, quantized_values, factor, bias if total is None else None)
        total = part if total is None else total + part
    assert total is not None
    return _shifted(total, x, matrix, shift)


def _int8(x: Value, matrix: QuantizedConstant, bias: Node | None) -> Value:
    """Multiplies by 8-bit quantized values and a scale per column."""
    builder, (columns, rows) = x.builder, matrix.values.shape
    padding = (0, -rows % _TEXEL, 0, -columns % _TEXEL)
    quantized_values = torch.nn.functional.pad(matrix.values.to(torch.int8), padding)
    scales = _padded(matrix.scales[:, 0])
    x = x if padding[1] == 0 else x.pad((0, padding[1]))
    found = builder.call(
        RUNTIME.linear_q8csw.default,
        x.node,
        builder.derived(matrix.source, quantized_values.contiguous(), torch.int8),
        builder.derived(matrix.source, scales, x.dtype),
        _bias(builder, bias, x.dtype),
        val=builder.empty((x.shape[0], quantized_values.shape[0]), x.dtype),
    )
    return _columns(Value(builder, found), columns)


def _int4(
    x: Value, matrix: QuantizedConstant, quantized_values: Tensor, factor: int, bias: Node | None
) -> Value:
    """Multiplies by 4-bit quantized values and a scale per column and group."""
    builder, columns = x.builder, quantized_values.shape[0]
    padded = torch.nn.functional.pad(quantized_values, (0, 0, 0, -columns % _TEXEL))
    found = builder.call(
        RUNTIME.linear_q4gsw.default,
        x.node,
        builder.derived(matrix.source, pack(padded), torch.uint8),
        builder.derived(matrix.source, _padded(matrix.scales.T * factor), x.dtype),
        matrix.block[1],
        _bias(builder, bias, x.dtype),
        val=builder.empty((x.shape[0], padded.shape[0]), x.dtype),
    )
    return _columns(Value(builder, found), columns)


def _shifted(product: Value, x: Value, matrix: QuantizedConstant, shift: int) -> Value:
    """Subtracts zero points, which multiply the sums of rows."""
    if matrix.zero_points is None and not shift:
        return product
    zeros = torch.zeros(()) if matrix.zero_points is None else matrix.zero_points.to(torch.float32)
    groups = matrix.scales.shape[1]
    sums = x.view(x.shape[0], groups, matrix.block[1]).sum([2]) if groups > 1 else x.sum([1], keepdim=True)
    weight = ((zeros - shift) * matrix.scales).T
    shifts = table(x.builder, weight.contiguous()).to(x.dtype)
    return product - (sums @ shifts if groups > 1 else sums * shifts)


def _bias(builder: Builder, bias: Node | None, dtype: torch.dtype) -> Node | None:
    return (
        None if bias is None else builder.derived(bias, _padded(builder.program.constants[bias.name]), dtype)
    )


def _padded(values: Tensor) -> Tensor:
    """Pads rows to whole texels."""
    return torch.nn.functional.pad(values.detach(), (0, -values.shape[-1] % _TEXEL)).contiguous()


def _columns(product: Value, count: int) -> Value:
    return product if product.shape[1] == count else product.slice(1, 0, count)


_FUSED: Final[dict[Any, Callable[[Builder, Node], Node | None]]] = {
    aten.convolution.default: _convolution,
    aten.linear.default: _linear,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    DEQUANTIZE_BLOCKS: _embedding,
}
