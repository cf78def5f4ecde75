# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: quantized functions, converted to integers and run in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.backends.arm.integer.convert import converted
from delegatec.backends.arm.integer.features import ALL, Features
from delegatec.backends.common.testing import Call, floats
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.interpret import interpret
from delegatec.edge.quantization.operators import DEQUANTIZE, DEQUANTIZE_BLOCKS, QUANTIZE, quantized
from delegatec.edge.verifier import verify

CALLS: Final = [QUANTIZE, DEQUANTIZE, DEQUANTIZE_BLOCKS, quantized.quantize_per_channel.default]
_RANGE: Final = {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32)
}

Function = Callable[..., Any]


def quantize(x: torch.Tensor, scale: float, zero: int = 0, dtype: torch.dtype = torch.int8) -> Any:
    """Quantizes a tensor."""
    return quantized.quantize_per_tensor(x, scale, zero, *_RANGE[dtype], dtype)


def dequantize(x: torch.Tensor, scale: float, zero: int = 0) -> Any:
    """Dequantizes a tensor."""
    return quantized.dequantize_per_tensor(x, scale, zero, *_RANGE[x.dtype], x.dtype)


def weight(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns int8 values, and a scale per output."""
    quantized_values = (floats(*shape, seed=5) * 150).to(torch.int8)
    return quantized_values, torch.linspace(0.001, 0.003, shape[0])


def channels(quantized_values: torch.Tensor, scales: torch.Tensor) -> Any:
    """Dequantizes a weight."""
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    return quantized.dequantize_per_channel(quantized_values, scales, zeros, 0, -127, 127, torch.int8)


def integers(function: Function, args: tuple[torch.Tensor, ...], features: Features = ALL) -> EdgeProgram:
    """Returns the converted program of a function, which must have no floating-point values left."""
    program = to_edge(torch.export.export(Call(function), args), preserve=CALLS)
    assert _reasons(program, features) == []
    verify(program)
    values = [node.meta["val"] for node in program.graph.nodes if node.op != "output"]
    assert [each for each in values if isinstance(each, torch.Tensor) and each.dtype.is_floating_point] == []
    return program


def reasons(function: Function, args: tuple[torch.Tensor, ...], features: Features = ALL) -> list[str]:
    """Returns why calls of a function are not converted."""
    return _reasons(to_edge(torch.export.export(Call(function), args), preserve=CALLS), features)


def _reasons(program: EdgeProgram, features: Features) -> list[str]:
    return [
        str(each) for each in converted(program, Facts(program.fixed_constants()), features).reasons.values()
    ]


def check(
    function: Function,
    *args: torch.Tensor,
    tolerance: int = 1,
    features: Features = ALL,
) -> EdgeProgram:
    """Checks that results differ from eager mode by at most one quantization step, and are not all equal."""
    program = integers(function, args, features)
    wanted = function(*args)
    (result,) = interpret(program, args)
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
    assert (result.to(torch.int64) - wanted.to(torch.int64)).abs().max() <= tolerance
    assert wanted.min() < wanted.max()
    return program


def calls(program: EdgeProgram) -> list[Any]:
    """Returns the operators of a program, in order."""
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


def quantized_values(*shape: int, dtype: torch.dtype = torch.int8, seed: int = 0) -> torch.Tensor:
    """Returns quantized values of the whole range."""
    low, high = _RANGE[dtype]
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high + 1, shape, generator=generator).to(dtype)
