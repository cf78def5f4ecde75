# SPDX-License-Identifier: Apache-2.0
"""Quantizes the operands and results of a program's calls to int8, as a quantized model has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge import EdgeProgram
from delegatec.edge.builder import Builder
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

_LIMITS: Final = (-128, 127, torch.int8)
_OPERAND_ZERO_POINT: Final = 3
_RESULT_ZERO_POINT: Final = -5


def result_scale(wanted: Tensor) -> float:
    """Returns the scale of a result: not a power of two, so that quantized values are rescaled."""
    return max(float(wanted.abs().max()) / 110, 1e-3)


def rounded(value: Any) -> Any:
    """Returns a float32 operand with the values that its quantization represents."""
    if not _is_quantized(value):
        return value
    parameters = (_operand_scale(value), _OPERAND_ZERO_POINT, *_LIMITS)
    result: Tensor = DEQUANTIZE(QUANTIZE(value, *parameters), *parameters)
    return result


def quantize(program: EdgeProgram, inputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Inserts a quantization and a dequantization after each float32 input, and before each float32 output.

    Constants of several dimensions, such as weights, become int8 constants and a dequantization.

    Args:
        program: of `program_of`, edited in place.
        inputs: of the program.
        wanted: its outputs.
    """
    output, given = program.output_node(), iter(inputs)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    builder = Builder(program).at(next(node for node in program.graph.nodes if node.op != "placeholder"))
    for node, spec in zip(placeholders, [*program.input_specs], strict=True):
        constant = None if spec.kind == InputKind.USER_INPUT else builder.facts.constant(node)
        value = next(given) if spec.kind == InputKind.USER_INPUT else constant
        if not _is_quantized(value) or (constant is not None and constant.dim() < 2):
            continue
        users, parameters = [*node.users], (_operand_scale(value), _OPERAND_ZERO_POINT, *_LIMITS)
        quantized = (
            builder.call(QUANTIZE, node, *parameters)
            if constant is None
            else builder.constant(QUANTIZE(value, *parameters))
        )
        dequantized = builder.call(DEQUANTIZE, quantized, *parameters)
        for user in users:
            user.replace_input_with(node, dequantized)
    builder = Builder(program).at(output)
    results = [
        _through(builder, node, result_scale(value), _RESULT_ZERO_POINT) if _is_quantized(value) else node
        for node, value in zip(output.args[0], wanted, strict=True)
    ]
    output.args = (tuple(results),)
    program.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(result.name), None) for result in results
    ]
    for node in program.graph.nodes:
        node.meta.update({"source": None, "debug_handle": 1})


def _is_quantized(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32 and value.numel() > 0


def _operand_scale(value: Tensor) -> float:
    """Returns a power of two: that of `rounded(value)` represents the same values."""
    largest = float(value.abs().max())
    return float(2.0 ** math.ceil(math.log2(largest / 120))) if largest else 1.0


def _through(builder: Builder, node: Node, scale: float, zero_point: int) -> Node:
    parameters = (scale, zero_point, *_LIMITS)
    return builder.call(DEQUANTIZE, builder.call(QUANTIZE, node, *parameters), *parameters)
