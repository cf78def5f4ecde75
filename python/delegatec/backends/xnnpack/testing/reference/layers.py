# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, products of matrices and softmax, in each combination of dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from delegatec.backends.xnnpack.reference.testing import Channels, Groups, Quantized
from delegatec.backends.xnnpack.testing.reference.cases import (
    NO_BIAS,
    Case,
    In,
    K,
    Out,
    Rows,
    integers,
    quantized_values,
    random,
)

# float32 sums in another order, and float16 results that are rounded from those sums.
SUMS: Final = 4e-6
HALF: Final = 2.0**-10
_TRANSPOSED: Final = 1
_IN, _OUT = 37, 13
_GROUP: Final = 32
_LIMITS: Final = (-0.7, 1.3)


def channel_filter(*shape: int, dim: int = 0, bits: int = 8) -> Channels:
    """Returns random quantized values with a scale for each channel."""
    most = 127 if bits == 8 else 7
    tensor = integers(*shape, least=-most, most=most).to(torch.int8)
    return Channels(tensor, random(shape[dim]).abs() * (0.6 / most) + 0.01, dim, bits)


def channel_bias(count: int, scales: torch.Tensor) -> Channels:
    """Returns an int32 bias with a scale for each channel."""
    return Channels(integers(count, least=-900, most=900).to(torch.int32), scales, 0, 32)


def _group_filter(outputs: int, inputs: int, *, constant: bool) -> Groups:
    tensor = integers(outputs, inputs, least=-8, most=7).to(torch.int8)
    return Groups(tensor, random(outputs, inputs // _GROUP).abs() * 0.1 + 0.01, _GROUP, constant)


def _biases(bias: Any) -> Iterator[tuple[str, Any]]:
    yield "", NO_BIAS
    yield "-bias", bias


def _floats() -> Iterator[Case]:
    f32, f16 = torch.float32, torch.float16
    for source, kernel, result, tolerance in (
        (f32, f32, f32, SUMS),
        (f32, f16, f32, SUMS),
        (f16, f16, f16, HALF),
        (f16, f32, f16, HALF),
    ):
        filter, bias = (
            K(random(_OUT, _IN).to(kernel)),
            K(random(_OUT).to(f16 if source == kernel == f16 else f32)),
        )
        name = f"{source}-{kernel}".replace("torch.", "")
        for text, added in _biases(bias):
            for shape in ((5, _IN), (2, 3, _IN), (_IN,)):
                fields = [In(random(*shape).to(source)), filter, added, Out(result), 0]
                yield Case(
                    f"FullyConnected-{name}-{len(shape)}{text}", "FullyConnected", fields, None, tolerance
                )
        fields = [
            In(random(5, _IN).to(source)),
            K(random(_IN, _OUT).to(kernel)),
            bias,
            Out(result),
            _TRANSPOSED,
        ]
        yield Case(f"FullyConnected-{name}-transposed", "FullyConnected", fields, _LIMITS, tolerance)
    yield Case(
        "FullyConnected-float32-half-bias",
        "FullyConnected",
        [In(random(5, _IN)), K(random(_OUT, _IN).half()), K(random(_OUT).half()), Out(), 0],
        None,
        SUMS,
    )
    yield Case(
        "FullyConnected-computed-filter",
        "FullyConnected",
        [In(random(5, _IN)), In(random(_OUT, _IN)), In(random(_OUT)), Out(), 0],
        None,
        SUMS,
    )
    yield Case(
        "FullyConnected-inline",
        "FullyConnected",
        [In(random(5, _IN)), K(random(_OUT, _IN), inline=True), K(random(_OUT), inline=True), Out(), 0],
        None,
        SUMS,
    )


def _quantized() -> Iterator[Case]:
    for text, limits in (("", None), ("-limits", _LIMITS)):
        source = quantized_values(5, _IN, scale=0.03)
        filter = channel_filter(_OUT, _IN)
        bias = K(channel_bias(_OUT, filter.scales * source.scale))
        for name, added in _biases(bias):
            fields = [In(source), K(filter), added, Out(torch.int8, 0.31, -4), 0]
            yield Case(f"FullyConnected-i8-channels{name}{text}", "FullyConnected", fields, limits)
        narrow = channel_filter(_OUT, _IN + 1, bits=4)
        bias = K(channel_bias(_OUT, narrow.scales * source.scale))
        source = quantized_values(5, _IN + 1, scale=0.03)
        for name, added in _biases(bias):
            fields = [In(source), K(narrow), added, Out(torch.int8, 0.31, -4), 0]
            yield Case(f"FullyConnected-i8-channels4{name}{text}", "FullyConnected", fields, limits)
        for dtype, zero in ((torch.int8, 0), (torch.uint8, 9)):
            activation = quantized_values(5, _IN, scale=0.03, dtype=dtype)
            weights = quantized_values(_OUT, _IN, scale=0.02, zero_point=zero, dtype=dtype)
            weights = Quantized(weights.tensor, weights.scale, weights.zero_point)
            added = K(Quantized(integers(_OUT, least=-900, most=900).to(torch.int32), 0.03 * 0.02))
            for name, value in _biases(added):
                fields = [In(activation), K(weights), value, Out(dtype, 0.31, 4), 0]
                yield Case(
                    f"FullyConnected-{dtype}{name}{text}".replace("torch.", ""),
                    "FullyConnected",
                    fields,
                    limits,
                )


def _dynamic() -> Iterator[Case]:
    inputs = 64
    for dtype, tolerance in ((torch.float32, SUMS), (torch.float16, HALF)):
        short = str(dtype).replace("torch.", "")
        for name, filter in (
            ("channels", channel_filter(_OUT, inputs)),
            ("channels4", channel_filter(_OUT, inputs, bits=4)),
            ("groups", _group_filter(_OUT, inputs, constant=False)),
            ("groups-constant", _group_filter(_OUT, inputs, constant=True)),
        ):
            for text, added in _biases(K(random(_OUT))):
                for shape in ((5, inputs), (2, 3, inputs)):
                    fields = [Rows(random(*shape).to(dtype)), K(filter), added, Out(dtype), 0]
                    title = f"FullyConnected-dynamic-{short}-{name}-{len(shape)}{text}"
                    optional = (dtype, name) == (torch.float16, "channels4")
                    yield Case(title, "FullyConnected", fields, None, tolerance, optional)
        fields = [Rows(random(4, inputs).to(dtype)), K(channel_filter(_OUT, inputs)), NO_BIAS, Out(dtype), 0]
        yield Case(f"FullyConnected-dynamic-{short}-limits", "FullyConnected", fields, _LIMITS, tolerance)
    for bits, inputs in ((8, 33), (4, 64), (4, 33)):
        filter = channel_filter(_OUT, inputs, bits=bits)
        for text, added in _biases(K(random(_OUT) / filter.scales)):
            fields = [In(random(5, inputs)), K(filter), added, Out(), 0]
            yield Case(f"FullyConnected-weights-{bits}-{inputs}{text}", "FullyConnected", fields, None, SUMS)
    inputs = 33
    filter = channel_filter(inputs, _OUT, dim=1)
    fields = [Rows(random(5, inputs)), K(filter), K(random(_OUT)), Out(), _TRANSPOSED]
    yield Case("FullyConnected-dynamic-transposed", "FullyConnected", fields, None, SUMS)


def _products() -> Iterator[Case]:
    for dtype, tolerance in ((torch.float32, SUMS), (torch.float16, HALF)):
        short = str(dtype).replace("torch.", "")
        for text, first, second, flags in (
            ("plain", (2, 5, 7), (2, 7, 3), 0),
            ("transposed", (2, 5, 7), (2, 3, 7), 1),
            ("broadcast", (3, 1, 5, 7), (2, 7, 3), 0),
            ("matrices", (5, 7), (7, 3), 0),
        ):
            fields = [In(random(*first).to(dtype)), In(random(*second).to(dtype)), Out(dtype), flags]
            yield Case(f"BatchMatrixMultiply-{short}-{text}", "BatchMatrixMultiply", fields, None, tolerance)
            fields = [In(random(*first).to(dtype)), K(random(*second).to(dtype)), Out(dtype), flags]
            yield Case(
                f"BatchMatrixMultiply-{short}-{text}-constant", "BatchMatrixMultiply", fields, None, tolerance
            )
        for shape in ((4, 9), (2, 3, 5), (7,)):
            fields = [In(random(*shape).to(dtype) * 3), Out(dtype), 0]
            yield Case(f"Softmax-{short}-{len(shape)}", "Softmax", fields, None, tolerance)
    result = Out(torch.int8, 0.4, 3)
    for flags, shape in ((0, (2, 7, 3)), (1, (2, 3, 7))):
        matrices = quantized_values(*shape, scale=0.02, zero_point=0)
        for text, operand in (("", In(matrices)), ("-constant", K(matrices))):
            fields = [In(quantized_values(2, 5, 7)), operand, result, flags]
            yield Case(f"BatchMatrixMultiply-i8-{flags}{text}", "BatchMatrixMultiply", fields)
    for flags, shape, dim in ((0, (1, 32, 3), 2), (1, (1, 3, 32), 1), (0, (32, 3), 1)):
        fields = [Rows(random(2, 5, 32)), K(channel_filter(*shape, dim=dim)), Out(), flags]
        title = f"BatchMatrixMultiply-dynamic-{flags}-{len(shape)}-{shape[0]}"
        yield Case(title, "BatchMatrixMultiply", fields, None, SUMS)


LAYERS: Final = (*_floats(), *_quantized(), *_dynamic(), *_products())
