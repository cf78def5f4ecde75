# SPDX-License-Identifier: Apache-2.0
"""Weights that are quantized in groups of columns.

All other quantization reaches the delegate as arithmetic (`edge/legalize/rules/quantized.py`):
int8 constants that are converted, shifted and scaled in the graph, and activations that are scaled, rounded
and clamped.
"""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import DataType, DequantizePerChannelGroupT, Operation
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT16_MAX
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.compile_spec import Int4, Settings
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.rules.quantized import QUANTIZED, has_all_digits
from delegatec.edge.quantization.constant import quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, operands_of

# The peer does not pack other sizes, so no runtime was tested with them.
_ROWS: Final = 8
_COLUMNS: Final = 32


def _dequantize(b: GraphBuilder, node: Node) -> None:
    """Emits the runtime's operation, on weights with two values in a byte, the first in the low nibble.

    These are the bytes that ExecuTorch 1.4.1's compiler has packed on a Mac: it puts the first value into the
    high nibble, and `torch._convert_weight_to_int4pack` on that device swaps the nibbles of each byte and
    keeps the order of the bytes (`weight_to_int4pack` in PyTorch's
    aten/src/ATen/native/mps/kernels/Quantized.metal).
    """
    found, dtype = operands_of(node), dtype_of(node)
    assert isinstance(found.scale, Node)
    scale = found.scale
    scales, columns = b.constant_value(scale), found.block[1]
    assert scales is not None
    halves = scales.detach().reshape(-1, shape_of(node)[1] // columns).to(torch.float16)
    table = DequantizePerChannelGroupT(
        input1Id=b.packed(found.x),
        outputId=b.temporary(shape_of(node), dtype if b.is_halved(dtype) else torch.float16),
        scalesId=b.constant(halves, lambda: b.name_of(scale)),
        zeroPointsId=-1,
        quantMin=found.low,
        quantMax=found.high,
        dtype=DataType.INT8,
        groupSize=columns,
        outputDtype=DataType.FLOAT16,
    )
    b.emit(Operation.DequantizePerChannelGroup, table)
    b.alias(node, b.converted(table.outputId, dtype))


def _unpackable(node: Node, facts: Facts) -> str | None:
    """Returns why the runtime's operation does not support a weight."""
    found = quantized_constant(node, facts.constant)
    if found is None or found.dtype != torch.int8:
        return "a weight that is not a constant of int8"
    if found.values.dim() != 2 or found.block[0] != 1:
        return f"blocks of {list(found.block)}"
    rows, columns = found.values.shape[0], found.block[1]
    if rows % _ROWS or columns % _COLUMNS:
        return f"{rows} rows with groups of {columns}"
    if found.zero_points is not None:
        return "zero points"
    least, most = found.range
    if not found.is_int4:
        return f"weights in [{least}, {most}]"
    scales = found.scales
    fits = has_all_digits(scales) and scales.abs().max().item() * max(-least, most, 1) <= FLOAT16_MAX
    return None if fits else "scales beyond the range or precision of float16"


def _not_packed(_: Node, settings: Settings) -> str | None:
    return None if settings.int4 is Int4.PACKED else "the option int4 is not packed"


ROWS: Final = (
    OperatorRow(
        DEQUANTIZE_BLOCKS,
        _dequantize,
        (
            QUANTIZED,
            Constraint(
                "option", "The option int4=packed is set: such graphs need macOS 15 or iOS 18.", _not_packed
            ),
        ),
        known=(
            constraint.Constraint(
                "packed",
                "The weight is a constant in [-8, 7] without zero points, with a multiple of 8 rows, groups "
                "of a multiple of 32, and scales that fit float16.",
                _unpackable,
            ),
        ),
        preserved=True,
    ),
)
