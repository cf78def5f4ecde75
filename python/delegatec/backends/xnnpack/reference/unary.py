# SPDX-License-Identifier: Apache-2.0
"""Functions of one value. Quantized ones are dequantized, and the results quantized, in float32.

Source: XNNPACK's operators/unary-elementwise-nc.c and reference/unary-elementwise.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack.reference.run import Run, Semantics, limits_of, quantized_limits, write_real
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, Tensor

_Function = Callable[[torch.Tensor], torch.Tensor]
# Quantized values are scaled by a multiplier with this many fractional bits.
_FRACTION: Final = 256


def _unary(function: _Function) -> Semantics:
    def semantics(run: Run, operation: Any, node: NodeT) -> None:
        run_function(run, operation, function)

    return semantics


def run_function(run: Run, operation: Any, function: _Function) -> None:
    """Writes a function of float32 values."""
    write_real(run, int(operation.outputId), function(run.operand(int(operation.inputId)).real()))


def _clamp(run: Run, operation: Any, node: NodeT) -> None:
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    least, most = limits_of(node)
    same = (source.zero_point, source.scale) == (result.zero_point, result.scale)
    if result.data_type in QUANTIZED and same:
        quantized_values = run.elements(source.id).to(torch.int32).clamp(*quantized_limits(node, result))
        run.write(result.id, quantized_values)
    else:
        write_real(run, result.id, source.real().clamp(least, most))


def _leaky_relu(run: Run, operation: Any, node: NodeT) -> None:
    slope = float(operation.negativeSlope)
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    if result.data_type not in QUANTIZED:
        run_function(run, operation, lambda x: torch.where(x < 0, x * slope, x))
        return
    positive = torch.tensor(source.one_scale) / result.one_scale
    negative = positive * slope
    quantized_values = run.elements(source.id).to(torch.int32) - source.one_zero_point
    run.write(
        result.id,
        torch.where(
            quantized_values < 0,
            scaled(quantized_values, negative, result),
            scaled(quantized_values, positive, result),
        ),
    )


def scaled(quantized_values: torch.Tensor, ratio: torch.Tensor, result: Tensor) -> torch.Tensor:
    """Rescales quantized values minus their zero point; the ratio is rounded to 1 / 256.

    Args:
        quantized_values: int32.
        ratio: of the two scales, float32.
        result: its zero point is added.
    """
    multiplier = int((ratio * _FRACTION).round())
    sums = (quantized_values * multiplier + _FRACTION // 2) >> 8
    return (sums + result.one_zero_point).clamp(result.least, result.most)


def _elu(run: Run, operation: Any, node: NodeT) -> None:
    alpha = float(operation.alpha)
    run_function(run, operation, lambda x: torch.where(x < 0, torch.expm1(x) * alpha, x))


def _hard_swish(run: Run, operation: Any, node: NodeT) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x / 6 * (x + 3).clamp(0, 6)

    def rounded(x: torch.Tensor) -> torch.Tensor:
        # each operation is in float16
        sixth = torch.tensor(1 / 6).half().float()
        return (x * sixth).half().float() * (x + 3).half().float().clamp(0, 6)

    is_half = run.operand(int(operation.inputId)).data_type == DataType.FLOAT16
    run_function(run, operation, rounded if is_half else function)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Absolute": _unary(torch.abs),
    "Ceiling": _unary(torch.ceil),
    "Clamp": _clamp,
    "Cos": _unary(torch.cos),
    "Elu": _elu,
    "Exp": _unary(torch.exp),
    "Floor": _unary(torch.floor),
    "Gelu": _unary(torch.nn.functional.gelu),
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Log": _unary(torch.log),
    "Negate": _unary(torch.neg),
    "ReciprocalSquareRoot": _unary(torch.rsqrt),
    "Sigmoid": _unary(torch.sigmoid),
    "Sin": _unary(torch.sin),
    "Square": _unary(torch.square),
    "SquareRoot": _unary(torch.sqrt),
    "Tanh": _unary(torch.tanh),
}
