# SPDX-License-Identifier: Apache-2.0
"""Quantized values outside of fused operators: the runtime converts int8 from and to float32 only."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.backends.common.row import overload
from delegatec.backends.vulkan.operators.quantized.conversion import RANGE
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.analysis.facts import STATED
from delegatec.edge.analysis.interval import Interval
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.quantization.constant import quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE, DEQUANTIZE_CONSTANTS, QUANTIZE

aten = torch.ops.aten

_BLOCK: Final = 32
_HALF: Final = 8
_QUANTIZED: Final = Interval(*RANGE, True)


def value_of_quantized(builder: Builder, node: Node) -> Value:
    """Returns int8 as float32."""
    value = builder.empty(shape_of(node), torch.float32)
    call = builder.call(DEQUANTIZE, node, 1.0, 0, *RANGE, torch.int8, val=value)
    call.meta[STATED] = _QUANTIZED
    return Value(builder, call)


def quantized_node(quantized_values: Value) -> Node:
    """Returns integers in float32 as int8."""
    value = quantized_values.builder.empty(quantized_values.shape, torch.int8)
    return quantized_values.builder.call(
        QUANTIZE, quantized_values.node, 1.0, 0, *RANGE, torch.int8, val=value
    )


def _cast(builder: Builder, node: Node) -> Node | None:
    """Converts to and from int8 through float32."""
    source = bind(node)["self"]
    if dtype_of(source) == torch.int8:
        return value_of_quantized(builder, source).to(dtype_of(node)).node
    if dtype_of(node) != torch.int8:
        return None
    found = builder.facts.of(source)
    if not found.is_integral or found.low < RANGE[0] or found.high > RANGE[1]:
        return None
    return quantized_node(value_of(builder, source, torch.float32))


def _moved(builder: Builder, node: Node) -> Node | None:
    """Moves int8 as float32."""
    if dtype_of(node) != torch.int8:
        return None
    floats = {
        each: value_of_quantized(builder, each).node
        for each in node.all_input_nodes
        if isinstance(each.meta["val"], torch.Tensor) and dtype_of(each) == torch.int8
    }
    args: Any = map_arg((node.args, node.kwargs), lambda each: floats.get(each, each))
    moved = builder.call(
        node.target,
        *args[0],
        val=builder.empty(shape_of(node), torch.float32),
        **args[1],
    )
    moved.meta[STATED] = _QUANTIZED
    return quantized_node(Value(builder, moved))


def _gathered(builder: Builder, node: Node) -> Node | None:
    """Gathers int8 rows from a 4-bit table, or as the sum of two gathers."""
    bound = bind(node)
    table, indices = builder.facts.constant(bound["self"]), bound["index"]
    if table is None or table.dtype != torch.int8 or table.dim() != 2 or bound["dim"] not in (0, -2):
        return None
    columns = table.shape[1]
    padded = torch.nn.functional.pad(table.detach(), (0, -columns % _BLOCK))
    shape = (shape_of(node)[0], padded.shape[1])
    scales = torch.ones(padded.shape[0], padded.shape[1] // _BLOCK)
    parts = []
    low, high = map(int, table.aminmax())
    is_short = low >= -_HALF and high < _HALF
    for quantized_values, factor in [(padded, 1)] if is_short else halves(padded):
        packed = builder.derived(bound["self"], pack(quantized_values, high_first=True), torch.uint8)
        scaled = builder.derived(bound["self"], scales * factor, torch.float32)
        found = builder.call(
            RUNTIME.embedding_q4gsw.default,
            *(packed, scaled, _BLOCK, indices, False),
            val=builder.empty(shape, torch.float32),
        )
        parts.append(Value(builder, found))
    rows = parts[0] if is_short else parts[0] + parts[1] + _HALF
    rows = rows if columns == shape[1] else rows.slice(1, 0, columns)
    rows.node.meta[STATED] = _QUANTIZED
    return quantized_node(rows)


def halves(quantized_values: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    """Returns int8 less eight as a sum of 4-bit integers, each with its factor."""
    shifted = quantized_values.to(torch.int16) - _HALF
    low = ((shifted + _HALF) & 15) - _HALF
    return [((shifted - low) // 16, 16), (low, 1)]


def pack(quantized_values: torch.Tensor, *, high_first: bool = False) -> torch.Tensor:
    """Packs pairs of integers in [-8, 8) into bytes, with an offset of eight.

    Args:
        quantized_values: of any integer dtype; an even column count.
        high_first: whether the first of a pair is in the high half.
    """
    unsigned = (quantized_values + _HALF).to(torch.uint8)
    even, odd = unsigned[..., ::2], unsigned[..., 1::2]
    return even << 4 | odd if high_first else odd << 4 | even


def _folded(builder: Builder, node: Node) -> Node | None:
    """Dequantizes 32-bit constants, such as a bias, at compile time: the values are as large."""
    found = quantized_constant(node, builder.facts.constant)
    if found is None or found.dtype != torch.int32:
        return None
    return builder.derived(found.source, found.dequantized(), dtype_of(node))


def _in_float32(builder: Builder, node: Node) -> Node | None:
    """Quantizes float16 as float32, and dequantizes to it."""
    bound = bind(node)
    if node.target is QUANTIZE and dtype_of(bound["input"]) == torch.float16:
        source = bound.pop("input")
        is_cast = source.target is aten._to_copy.default and dtype_of(source.args[0]) == torch.float32
        wide = value_of(builder, source.args[0] if is_cast else source, torch.float32)
        return builder.call(QUANTIZE, wide.node, *bound.values(), val=node.meta["val"])
    if node.target is DEQUANTIZE and dtype_of(node) == torch.float16:
        wide = Value(
            builder, builder.call(DEQUANTIZE, *node.args, val=builder.empty(shape_of(node), torch.float32))
        )
        return wide.to(torch.float16).node
    return None


def _quantize(builder: Builder, node: Node) -> Node | None:
    """Quantizes to a part of the int8 range in floating point."""
    bound = bind(node)
    if bound["dtype"] != torch.int8:
        return None
    x = value_of(builder, bound["input"], torch.float32)
    quantized_values = (x * (1.0 / bound["scale"])).round() + bound["zero_point"]
    return quantized_node(quantized_values.clamp(bound["quant_min"], bound["quant_max"]))


_MOVES: Final = tuple(
    overload(name)
    for name in ("view", "permute", "expand", "select.int", "slice.Tensor", "cat", "constant_pad_nd")
)

REWRITES: Final = (
    *(
        Rewrite(target, _folded, note="constants of 32 bits are converted", preserved=True)
        for target in DEQUANTIZE_CONSTANTS
    ),
    *(Rewrite(target, _in_float32, preserved=True) for target in (QUANTIZE, DEQUANTIZE)),
    Rewrite(QUANTIZE, _quantize, note="in floating point"),
    Rewrite(aten._to_copy.default, _cast, note="int8 by way of float32", computes=False),
    Rewrite(
        aten.index_select.default, _gathered, note="rows of int8 are those of one or two tables of 4 bits"
    ),
    *(Rewrite(target, _moved, note="int8 as float32", computes=False) for target in _MOVES),
)
