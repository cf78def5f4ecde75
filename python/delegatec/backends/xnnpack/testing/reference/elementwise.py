# SPDX-License-Identifier: Apache-2.0
"""Functions of one and two values, in each dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch

from delegatec.backends.xnnpack.reference.testing import Quantized
from delegatec.backends.xnnpack.testing.reference.cases import Case, In, K, Out, quantized_values, random

# Elementary functions of float32 in XNNPACK differ from torch's in the last bits.
ULPS: Final = 4e-7
HALF: Final = 2.0**-11
FLOATS: Final = {torch.float32: ULPS, torch.float16: HALF, torch.bfloat16: 0.0}
QUANTIZED: Final = (torch.int8, torch.uint8)
SHORT: Final = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int32: "i32",
}

# Operation -> inputs in its domain, and the scale and zero point of quantized results.
_UNARY: Final[dict[str, tuple[float, float, float, int]]] = {
    "Absolute": (-6, 6, 0.05, -100),
    "Ceiling": (-6, 6, 0.05, 0),
    "Clamp": (-6, 6, 0.05, 3),
    "Cos": (-6, 6, 0.01, 0),
    "Exp": (-6, 6, 2.0, -128),
    "Floor": (-6, 6, 0.05, 0),
    "Gelu": (-6, 6, 0.03, -90),
    "HardSwish": (-6, 6, 0.03, -90),
    "Log": (0.01, 8, 0.05, 5),
    "Negate": (-6, 6, 0.05, 0),
    "ReciprocalSquareRoot": (0.01, 8, 0.1, -128),
    "Sigmoid": (-6, 6, 1 / 256, -128),
    "Sin": (-6, 6, 0.01, 0),
    "Square": (-6, 6, 0.2, -120),
    "SquareRoot": (0.01, 8, 0.02, -120),
    "Tanh": (-6, 6, 1 / 128, 0),
}
# Functions that CPUs with float16 arithmetic compute in float16.
_IN_FLOAT16: Final = frozenset({"Cos", "Exp", "ReciprocalSquareRoot", "Sigmoid", "Sin", "SquareRoot", "Tanh"})
_FLOAT16_ULPS: Final = 2.0**-8
_BFLOAT16_ULPS: Final = 2.0**-7
_BINARY: Final = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract", "Prelu")


def _input(dtype: torch.dtype, least: float, most: float, shape: tuple[int, ...] = (5, 67)) -> Any:
    """Returns an input of a range: floats, or all quantized values."""
    if dtype in QUANTIZED:
        zero = -128 if least >= 0 else 3
        scale = (most - least) / 256
        shift = 128 if dtype == torch.uint8 else 0
        all_values = torch.arange(256) - 128 + shift
        # the function is not defined at zero for those with a positive domain
        positive = all_values[1:] if least > 0 else all_values
        return Quantized(positive.to(dtype).reshape(1, -1), scale, zero + shift)
    return (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * (most - least) + least).to(dtype)


def _out(dtype: torch.dtype, scale: float, zero_point: int) -> Out:
    if dtype in QUANTIZED:
        return Out(dtype, scale, zero_point + (128 if dtype == torch.uint8 else 0))
    return Out(dtype)


def _tolerance(dtype: torch.dtype, operation: str = "") -> float:
    if dtype == torch.float16 and operation in _IN_FLOAT16:
        return _FLOAT16_ULPS
    if dtype == torch.bfloat16 and operation in ("Gelu", "HardSwish"):
        return _BFLOAT16_ULPS
    return FLOATS.get(dtype, 0.0)


def _unary() -> Iterator[Case]:
    for operation, (least, most, scale, zero_point) in _UNARY.items():
        limits = (-1.5, 2.25) if operation == "Clamp" else None
        for dtype in (*FLOATS, *QUANTIZED):
            source = _input(dtype, least, most)
            result = _out(dtype, scale, zero_point)
            if operation == "Clamp" and isinstance(source, Quantized):
                yield Case(
                    f"Clamp-same-{SHORT[dtype]}",
                    "Clamp",
                    [In(source), Out(dtype, source.scale, source.zero_point), 0],
                    limits,
                )
            yield Case(
                f"{operation}-{SHORT[dtype]}",
                operation,
                [In(source), result, 0],
                limits,
                _tolerance(dtype, operation),
            )
    for dtype in (*FLOATS, *QUANTIZED):
        source = _input(dtype, -6, 6)
        for slope in (0.125, 0.3, -0.5):
            fields = [slope, In(source), _out(dtype, 0.04, -7), 0]
            yield Case(f"LeakyRelu{slope}-{SHORT[dtype]}", "LeakyRelu", fields, None, _tolerance(dtype))
        for alpha in (1.0, 0.6):
            fields = [alpha, In(source), _out(dtype, 0.04, -90), 0]
            yield Case(f"Elu{alpha}-{SHORT[dtype]}", "Elu", fields, None, _tolerance(dtype))


def _small_if_one(source: Quantized) -> Quantized:
    """Returns quantized values; a single one is below the zero point, so that not all results are limits."""
    if source.tensor.numel() > 1:
        return source
    return Quantized(torch.full_like(source.tensor, source.zero_point - 20), source.scale, source.zero_point)


def _binary() -> Iterator[Case]:
    for operation in _BINARY:
        for dtype in (*FLOATS, *QUANTIZED):
            one: Any
            other: Any
            for what, first, second in (
                ("same", (3, 5, 7), (3, 5, 7)),
                ("row", (3, 5, 7), (7,)),
                ("rank", (5, 1), (3, 1, 7)),
                ("number", (3, 5, 7), (1,)),
                ("first", (1, 1), (4, 9)),
                ("scalar", (4, 9), ()),
                ("six", (2, 1, 2, 1, 2, 3), (1, 2, 2, 2, 1, 3)),
            ):
                if dtype in QUANTIZED:
                    one = quantized_values(*first, scale=0.05, zero_point=3, dtype=dtype)
                    other = quantized_values(*second, scale=0.023, zero_point=-11, dtype=dtype)
                    one, other = _small_if_one(one), _small_if_one(other)
                else:
                    one, other = random(*first).to(dtype), random(*second).to(dtype)
                    one = one.abs() * -0.1 if one.numel() == 1 else one
                    other = torch.where(other.abs() < 0.01, 0.5, other).clamp(-0.9, 0.9).to(dtype)
                result = _out(dtype, 0.061, -5)
                slopes = K(other) if operation == "Prelu" else In(other)
                yield Case(
                    f"{operation}-{what}-{SHORT[dtype]}",
                    operation,
                    [In(one), slopes, result, 0],
                    None,
                    _tolerance(dtype),
                )
    for dtype in (*FLOATS, *QUANTIZED):
        source = quantized_values(3, 5, dtype=dtype) if dtype in QUANTIZED else random(3, 5).to(dtype)
        constant = quantized_values(5, dtype=dtype) if dtype in QUANTIZED else random(5).to(dtype)
        for operation in ("Add", "Subtract", "Multiply", "Divide"):
            for limits in ((-0.5, 1.0), (0.0, math.inf)):
                fields = [K(constant), In(source), _out(dtype, 0.061, -5), 0]
                yield Case(
                    f"{operation}-limits{limits[1]}-{SHORT[dtype]}",
                    operation,
                    fields,
                    limits,
                    _tolerance(dtype),
                )


def _integers() -> Iterator[Case]:
    one, other = (torch.tensor(each, dtype=torch.int32) for each in ([-7, 5, 2**30, 9], [3, -2, 4, -9]))
    for operation in ("Add", "Maximum", "Minimum", "Multiply", "Subtract", "Divide"):
        yield Case(f"{operation}-i32", operation, [In(one), In(other), Out(torch.int32), 0])
    for operation in ("Absolute", "Negate", "Square", "Clamp"):
        limits = (-3.0, 6.0) if operation == "Clamp" else None
        yield Case(f"{operation}-i32", operation, [In(other), Out(torch.int32), 0], limits)


def _conversions() -> Iterator[Case]:
    dtypes = (*FLOATS, *QUANTIZED, torch.int32)
    for source in dtypes:
        for result in dtypes:
            value = (
                _input(source, -6, 6)
                if source != torch.int32
                else torch.arange(-70, 80, 7, dtype=torch.int32)
            )
            fields = [In(value), _out(result, 0.061, 5), 0]
            yield Case(f"Convert-{SHORT[source]}-{SHORT[result]}", "Convert", fields)


ELEMENTWISE: Final = (*_unary(), *_binary(), *_integers(), *_conversions())
