# SPDX-License-Identifier: Apache-2.0
"""Quantization of activations: conversions between float32 and int8, which is stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import QUANTIZED
from delegatec.backends.vulkan.memory.demands import Group, IsConstant
from delegatec.backends.vulkan.memory.representation import ANY, INT8
from delegatec.backends.vulkan.operators.row import Constraint, Lower, OperatorRow, operator_row
from delegatec.edge.arguments import bind, dtype_of, short_name
from delegatec.edge.legalize.constraints import rank_at_most
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

RANGE: Final = (-128, 127)
UNSIGNED: Final = (0, 255)


def _quantize_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    return Group(ANY, (bind(node)["input"],)), Group(INT8, (), (0,))


def _dequantize_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    return Group(INT8, (bind(node)["input"],)), Group(ANY, (), (0,))


def is_shifted(node: Node) -> bool:
    """Whether a quantization to uint8 can be one to int8: its values are only dequantized."""
    bound = bind(node)
    limits = (bound["quant_min"], bound["quant_max"])
    return bound["dtype"] == torch.uint8 and limits == UNSIGNED and all(map(_dequantizes, node.users))


def _dequantizes(node: Node) -> bool:
    return node.target is DEQUANTIZE and bind(node)["dtype"] == torch.uint8


def _range(node: Node, _: object) -> str | None:
    bound = bind(node)
    source = bound["input"] if node.target is DEQUANTIZE else node
    if source.target is QUANTIZE and is_shifted(source):
        return None
    if bound["dtype"] != torch.int8:
        return f"quantized values of dtype {short_name(bound['dtype'])}"
    limits = bound["quant_min"], bound["quant_max"]
    return None if limits == RANGE or node.target is DEQUANTIZE else f"quantized values in {list(limits)}"


def _float32(node: Node, _: object) -> str | None:
    value = bind(node)["input"] if node.target is QUANTIZE else node
    dtype = dtype_of(value)
    return None if dtype == torch.float32 else f"values of dtype {short_name(dtype)}"


def _scale(node: Node, _: object) -> str | None:
    """The runtime divides by the scale in float32."""
    scale = bind(node)["scale"]
    return None if 2.0**-120 < scale < 2.0**120 else f"the scale {scale}"


def _lower(name: str) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        scale, zero = b.scalar(float(bound["scale"])), b.scalar(int(bound["zero_point"]))
        rest = [b.scalar(bound["quant_min"]), b.scalar(bound["quant_max"]), *[b.null()] * count]
        b.call(
            f"quantized_decomposed.{name}.default", b.of(bound["input"]), scale, zero, *rest, b.result(node)
        )

    count = 1 if name == "quantize_per_tensor" else 2
    return lower


_CONSTRAINTS: Final = (
    rank_at_most(4, "blocks are of four dimensions."),
    Constraint(
        "quantization",
        "Quantized values are int8 of the full range, or uint8, which is only dequantized.",
        _range,
    ),
    Constraint("dtype", "The values are float32.", _float32),
    Constraint("argument", "The scale has an inverse in float32: the runtime divides by it.", _scale),
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        QUANTIZE,
        _quantize_memory,
        {torch.float32},
        *_CONSTRAINTS,
        lower=_lower("quantize_per_tensor"),
        preserved=True,
    ),
    operator_row(
        DEQUANTIZE,
        _dequantize_memory,
        QUANTIZED,
        *_CONSTRAINTS,
        lower=_lower("dequantize_per_tensor"),
        preserved=True,
    ),
)
