# SPDX-License-Identifier: Apache-2.0
"""Weights quantized per channel, or per group of columns.

All other quantization reaches the delegate as arithmetic (`edge/legalize/rules/quantized.py`): int8 constants
that are converted, shifted and scaled in the graph, and activations that are scaled, rounded and clamped.
"""

from __future__ import annotations

from typing import Final

# Registers torch.ops.quantized_decomposed.
import torch
import torch.ao.quantization.fx._decomposed
from delegatec_schemas.mps_graph import DataType, DequantizePerChannelGroupT, Operation
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT16_MAX
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import constant, operand
from delegatec.backends.mps.compile_spec import Int4
from delegatec.backends.mps.dtypes import FLOATS, INTEGERS
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import dtype_of, positive, shape_of, short_name

# The peer does not pack other sizes, so no runtime was tested with them.
_ROWS: Final = 8
_COLUMNS: Final = 32
# The smallest normal float16.
_LEAST_NORMAL: Final = 2.0**-14


def _dequantize(b: GraphBuilder, node: Node) -> None:
    scales = _scales_of_packed(b, node) if b.settings.int4 is Int4.PACKED else None
    result = _of_bytes(b, node) if scales is None else _packed(b, node, scales)
    result.bind(node)


def _groups(node: Node) -> tuple[int, int, int]:
    """Returns the numbers of rows, groups per row, and columns per group."""
    bound = bind(node)
    rows, columns = shape_of(bound["input"])
    group = bound["group_size"]
    if group > columns and shape_of(bound["scales"])[-1] == 1:
        group = columns
    return rows, columns // group, group


def _of_bytes(b: GraphBuilder, node: Node) -> Expression:
    rows, groups, columns = _groups(node)
    scaled = _scaled(b, node, (rows, groups, columns), (rows, groups, 1))
    return scaled.view(rows, groups * columns)


def _dequantize_per_channel(b: GraphBuilder, node: Node) -> None:
    shape = shape_of(node)
    axis = positive(bind(node)["axis"], len(shape))
    along = tuple(size if dim == axis else 1 for dim, size in enumerate(shape))
    _scaled(b, node, shape, along).bind(node)


def _scaled(b: GraphBuilder, node: Node, shape: tuple[int, ...], along: tuple[int, ...]) -> Expression:
    """Computes (weight - zero point) * scale.

    Args:
        b: the graph.
        node: the call.
        shape: in which the weight is computed.
        along: shape of scale and zero point, which broadcasts to that of the weight.
    """
    bound = bind(node)
    dtype = dtype_of(bound["scales"])
    value = b.constant_value(bound["scales"])
    # The product of a weight and a subnormal scale may be normal.
    small = value is not None and b.is_halved(dtype) and not _are_normal(value)
    dtype = torch.float32 if small else dtype
    levels = operand(b, bound["input"], dtype).view(*shape)
    if bound["zero_points"] is not None and not _is_zero(b, bound["zero_points"]):
        levels = levels - operand(b, bound["zero_points"], dtype).view(*along)
    if small and value is not None:
        scales = constant(b, value.to(dtype), b.name_of(bound["scales"]))
    else:
        scales = operand(b, bound["scales"])
    return (levels * scales.view(*along)).to(dtype_of(node))


def _packed(b: GraphBuilder, node: Node, scales: torch.Tensor) -> Expression:
    """Emits the runtime's operation, on weights with two numbers per byte, the first in the low half.

    These are the bytes that ExecuTorch 1.4.1's compiler packs on a Mac: it stores the first number in the
    high half, and `torch._convert_weight_to_int4pack` on that device swaps the halves of each byte
    (`weight_to_int4pack` in PyTorch's aten/src/ATen/native/mps/kernels/Quantized.metal).
    """
    bound, shape, dtype = bind(node), shape_of(node), dtype_of(node)
    scales_name = b.name_of(bound["scales"])
    out = b.temporary(shape, dtype if b.is_halved(dtype) else torch.float16)
    table = DequantizePerChannelGroupT(
        input1Id=b.packed(bound["input"]),
        outputId=out,
        scalesId=constant(b, scales, scales_name).id,
        zeroPointsId=-1,
        quantMin=bound["quant_min"],
        quantMax=bound["quant_max"],
        dtype=DataType.INT8,
        groupSize=_groups(node)[2],
        outputDtype=DataType.FLOAT16,
    )
    b.emit(Operation.DequantizePerChannelGroup, table)
    return Expression(b, out).to(dtype)


def _scales_of_packed(b: GraphBuilder, node: Node) -> torch.Tensor | None:
    """Returns the float16 scales of a weight if the runtime's operation is exact for it, else None."""
    bound = bind(node)
    weight, scales = (b.constant_value(bound[name]) for name in ("input", "scales"))
    rows, groups, columns = _groups(node)
    if weight is None or scales is None or weight.dtype != torch.int8:
        return None
    if rows % _ROWS or columns % _COLUMNS:
        return None
    if bound["zero_points"] is not None and not _is_zero(b, bound["zero_points"]):
        return None
    least, most = (value.item() for value in weight.aminmax())
    if least < -8 or most > 7 or not _are_normal(scales):
        return None
    if not scales.detach().abs().max().item() * max(-least, most, 1) <= FLOAT16_MAX:
        return None
    return scales.detach().reshape(rows, groups).to(torch.float16)


def _are_normal(scales: torch.Tensor) -> bool:
    """Whether all numbers are normal in float16, or zero."""
    size = scales.detach().abs()
    return bool(((size == 0) | (size >= _LEAST_NORMAL)).all())


def _is_zero(b: GraphBuilder, node: Node) -> bool:
    value = b.constant_value(node)
    return value is not None and not bool(value.any())


def _dtypes(node: Node, _: object) -> str | None:
    bound = bind(node)
    for name, kinds in (("input", INTEGERS), ("scales", FLOATS)):
        if dtype_of(bound[name]) not in kinds:
            return f"{name} of dtype {short_name(dtype_of(bound[name]))}"
    return None


_RULES: Final = (
    Constraint(
        "dtype",
        "The weight is int8, int16, int32 or int64, and the scales float32 or float16.",
        _dtypes,
        "quantize to int8",
    ),
)

ROWS: Final = (
    OperatorRow(
        torch.ops.quantized_decomposed.dequantize_per_channel.default,
        _dequantize_per_channel,
        _RULES,
        note="in float32 if a scale is subnormal in float16",
        preserved=True,
    ),
    OperatorRow(
        torch.ops.quantized_decomposed.dequantize_per_channel_group.default,
        _dequantize,
        _RULES,
        note="int8 in the blob, of every range and with any zero points; with the option int4=packed, "
        "DequantizePerChannelGroup of constant weights in [-8, 7] without zero points, of rows "
        "in eights and groups in thirty-twos, with scales that float16 holds: that needs macOS 15 or iOS 18",
        preserved=True,
    ),
)
