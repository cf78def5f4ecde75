# SPDX-License-Identifier: Apache-2.0
"""Calls that quantize and dequantize. Most emit nothing: the calls between them compute with int8 values."""

from __future__ import annotations

import functools
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common import row
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.quantized.bounds import is_wide
from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.backends.xnnpack.quantized.weights import CALLS
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, short_name
from delegatec.edge.legalize import constraint
from delegatec.edge.quantization.constant import quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE


def _quantize(b: QuantizedBuilder, node: Node) -> None:
    scale = scale_of(node)
    assert scale is not None
    b.alias(node, b.quantized(bind(node)["input"], scale))


def _dequantize(b: QuantizedBuilder, node: Node) -> None:
    quantized = bind(node)["input"]
    if b.constant_value(quantized) is None:
        b.alias(node, b.stored(quantized))


def _constant(b: QuantizedBuilder, node: Node) -> None:
    """Emits nothing: layers read the quantized values of a weight, and other calls the dequantized ones."""


def _dynamically_quantized(b: QuantizedBuilder, node: Node) -> None:
    """Emits nothing: the layers that read the call quantize its operand."""
    b.alias(node, b.of(bind(node)["x"]))


def _other_float(node: Node, _: object) -> str | None:
    dtype = dtype_of(bind(node)["input"] if node.target is QUANTIZE else node)
    return None if dtype in FLOATS else short_name(dtype)


_FLOATS: Final = Constraint(
    "dtype",
    "Values before quantization and after dequantization are float32 or float16.",
    _other_float,
    "convert the model to float32",
)


def _no_scale(node: Node, _: object) -> str | None:
    if scale_of(node) is not None or is_wide(node):
        return None
    bound = bind(node)
    scale, zero = bound["scale"], bound["zero_point"]
    if bound["dtype"] in (torch.int8, torch.uint8) and isinstance(zero, int):
        return f"scale {scale:g}, zero point {zero}"
    return "quantized values of another dtype"


_SCALE: Final = Constraint(
    "quantization",
    "Quantized values are int8 or uint8, with one scale and a zero point in their range; wider ones are "
    "dequantized in the same delegate.",
    _no_scale,
    "quantize activations to int8",
)
_LEVELS: Final = constraint.Constraint[Facts](
    "quantization",
    "The quantized values are constant: the runtime packs them when it loads a program.",
    lambda node, facts: None if quantized_constant(node, facts.constant) else "computed quantized values",
)


def _weight(target: OpOverload) -> OperatorRow:
    return row.OperatorRow(
        target, _constant, computes=False, preserved=True, known=(_LEVELS,), note="no operation"
    )


_scaled: Final = functools.partial(operator_row, resizes=True, dtypes=_FLOATS, preserved=True)

ROWS: Final[tuple[OperatorRow, ...]] = (
    _scaled(QUANTIZE, _quantize, _SCALE),
    _scaled(
        DEQUANTIZE, _dequantize, _SCALE, note="no operation where its users compute with quantized values"
    ),
    *map(_weight, sorted(CALLS - {DEQUANTIZE}, key=str)),
    operator_row(
        XNNPACK.quantize_dynamically.default,
        _dynamically_quantized,
        resizes=True,
        note="a conversion for all layers that read it",
    ),
)
