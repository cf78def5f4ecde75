# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling and resizing of images, in each combination of dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from delegatec.backends.xnnpack.reference.testing import Quantized
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
from delegatec.backends.xnnpack.testing.reference.elementwise import SHORT
from delegatec.backends.xnnpack.testing.reference.layers import HALF, SUMS, channel_bias, channel_filter

_LIMITS: Final = (-0.7, 1.3)
_SAME: Final = 4
# Depthwise convolutions and resizing compute in float16.
_FLOAT16_ULPS: Final = 2.0**-7
_ROWS_OF_IMAGES: Final = 3

# name -> pads (top, right, bottom, left), kernel, stride, dilation, channels of a group, groups, flags
_GEOMETRIES: Final[dict[str, tuple[Any, ...]]] = {
    "plain": ((0, 0, 0, 0), (3, 3), (1, 1), (1, 1), 5, 7, 1, 0),
    "pads": ((1, 2, 0, 1), (3, 2), (2, 1), (1, 1), 5, 7, 1, 0),
    "dilated": ((2, 2, 2, 2), (3, 3), (1, 2), (2, 1), 4, 6, 1, 0),
    "groups": ((1, 1, 1, 1), (3, 3), (2, 2), (1, 1), 2, 3, 4, 0),
    "points": ((0, 0, 0, 0), (1, 1), (1, 1), (1, 1), 5, 7, 1, 0),
    "strided-points": ((0, 0, 0, 0), (1, 1), (2, 2), (1, 1), 5, 7, 1, 0),
    "same": ((0, 0, 0, 0), (3, 3), (2, 2), (1, 1), 5, 7, 1, _SAME),
}
_DEPTHWISE: Final[dict[str, tuple[Any, ...]]] = {
    "plain": ((1, 1, 1, 1), (3, 3), (1, 1), (1, 1), 1, 1, 9, 0),
    "pads": ((0, 1, 1, 2), (5, 3), (2, 1), (1, 2), 1, 1, 9, 0),
    "multiplied": ((1, 1, 1, 1), (3, 3), (2, 2), (1, 1), 1, 2, 6, 0),
}
_TRANSPOSED: Final[dict[str, tuple[Any, ...]]] = {
    "plain": ((0, 0, 0, 0), (3, 3), (1, 1), (1, 1), 5, 7, 1, 0),
    "adjusted": ((1, 1, 1, 1), (3, 3), (2, 2), (1, 1), 5, 7, 1, 0),
    "pads": ((0, 1, 1, 0), (4, 2), (2, 1), (1, 2), 3, 4, 2, 0),
    "tiles": ((0, 0, 0, 0), (2, 2), (2, 2), (1, 1), 5, 7, 1, 0),
}
_SIZE: Final = (2, 9, 8)


def _fields(
    geometry: tuple[Any, ...], operands: list[Any], adjustment: tuple[int, int] = (0, 0)
) -> list[Any]:
    pads, kernel, stride, dilation, inputs, outputs, groups, flags = geometry
    return [*pads, *kernel, *stride, *dilation, inputs, outputs, groups, *adjustment, *operands, flags]


def _operands(
    geometry: tuple[Any, ...], *, depthwise: bool = False, transposed: bool = False
) -> Iterator[tuple[str, list[Any], float]]:
    """Yields a name, input, filter, bias and output for each combination of dtypes, and the tolerance."""
    _, kernel, stride, _, inputs, outputs, groups, _ = geometry
    channels = groups * outputs
    shape = (1, *kernel, channels) if depthwise else (channels, *kernel, inputs)
    image = (*_SIZE, groups * inputs)
    f32, f16 = torch.float32, torch.float16
    biases = {f32: random(channels), f16: random(channels).half()}
    for source, weights, added in ((f32, f32, f32), (f16, f32, f32), (f32, f16, f16)):
        name = "-".join(SHORT[dtype] for dtype in (source, weights, added))
        filter = K(random(*shape).to(weights))
        tolerance = SUMS if source == f32 else _FLOAT16_ULPS if depthwise else HALF
        yield name, [In(random(*image).to(source)), filter, K(biases[added]), Out(source)], tolerance
    activation = quantized_values(*image, scale=0.03)
    per_channel = channel_filter(*shape, dim=3 if depthwise else 0)
    bias = channel_bias(channels, per_channel.scales * activation.scale)
    yield "channels", [In(activation), K(per_channel), K(bias), Out(torch.int8, 0.41, -4)], 0
    for dtype, zero in ((torch.int8, 0), (torch.uint8, 9)):
        activation = quantized_values(*image, scale=0.03, dtype=dtype)
        one_scale = quantized_values(*shape, scale=0.02, zero_point=zero, dtype=dtype)
        sums = Quantized(integers(channels, least=-900, most=900).to(torch.int32), 0.03 * 0.02)
        yield SHORT[dtype], [In(activation), K(one_scale), K(sums), Out(dtype, 0.41, 4)], 0
    if depthwise:
        return
    dims = 1 if kernel == stride == (1, 1) else _ROWS_OF_IMAGES
    for dtype, tolerance in ((f32, SUMS),) if transposed else ((f32, SUMS), (f16, HALF)):
        operands = [Rows(random(*image).to(dtype), dims), K(per_channel), K(biases[f32]), Out(dtype)]
        yield f"dynamic-{SHORT[dtype]}", operands, tolerance


def _convolutions() -> Iterator[Case]:
    for operation, geometries, options in (
        ("Convolution", _GEOMETRIES, {}),
        ("DepthwiseConvolution", _DEPTHWISE, {"depthwise": True}),
        ("TransposedConvolution", _TRANSPOSED, {"transposed": True}),
    ):
        for name, geometry in geometries.items():
            adjustment = (1, 0) if name == "adjusted" else (0, 0)
            for text, operands, tolerance in _operands(geometry, **options):
                fields = _fields(geometry, operands, adjustment)
                title = f"{operation}-{name}-{text}"
                yield Case(title, operation, fields, None, tolerance)
                if name == "pads":
                    yield Case(f"{title}-limits", operation, fields, _LIMITS, tolerance)
                if name == "plain":
                    without = [*operands[:2], NO_BIAS, operands[3]]
                    yield Case(f"{title}-no-bias", operation, _fields(geometry, without), None, tolerance)


def _image(dtype: torch.dtype, *shape: int) -> tuple[In, Out]:
    if dtype in (torch.int8, torch.uint8):
        content = quantized_values(*shape, dtype=dtype)
        return In(content), Out(dtype, content.scale, content.zero_point)
    return In(random(*shape).to(dtype)), Out(dtype)


def _pools() -> Iterator[Case]:
    tolerances = {torch.float32: SUMS, torch.float16: HALF}
    for dtype in (torch.float32, torch.float16, torch.int8, torch.uint8):
        source, result = _image(dtype, 2, 9, 8, 5)
        for name, pads, kernel, stride, dilation, flags in (
            ("plain", (0, 0, 0, 0), (2, 2), (2, 2), (1, 1), 0),
            ("pads", (1, 1, 0, 1), (3, 2), (2, 1), (1, 1), 0),
            ("dilated", (1, 1, 1, 1), (3, 3), (1, 1), (2, 1), 0),
            ("same", (0, 0, 0, 0), (3, 3), (2, 2), (1, 1), _SAME),
        ):
            fields = [*pads, *kernel, *stride, *dilation, source, result, flags]
            for limits in (None, _LIMITS):
                suffix = f"{name}-{SHORT[dtype]}{'-limits' if limits else ''}"
                yield Case(f"MaxPooling-{suffix}", "MaxPooling", fields, limits)
                if dtype in tolerances and name != "dilated":
                    yield Case(
                        f"AveragePooling-{suffix}", "AveragePooling", fields, limits, tolerances[dtype]
                    )
        for flags in (0, 0x40):
            for shape in ((2, 9, 8, 5), (7, 3, 4), (2, 3, 4, 1, 6)):
                source, result = _image(dtype, *shape)
                if result.scale:
                    result = Out(dtype, 0.004, result.zero_point)
                name = f"GlobalAveragePooling-{flags}-{len(shape)}-{SHORT[dtype]}"
                tolerance = tolerances.get(dtype, 0.0)
                yield Case(name, "GlobalAveragePooling", [source, result, flags], None, tolerance)
                if len(shape) == 4:
                    limits = (-0.05, 0.03)
                    yield Case(
                        f"{name}-limits", "GlobalAveragePooling", [source, result, flags], limits, tolerance
                    )
        for flags in (0, 4, 8):
            for height, width in ((13, 5), (9, 16), (1, 1)):
                source, result = _image(dtype, 2, 9, 8, 5)
                fields = [height, width, source, result, flags]
                name = f"ResizeBilinear-{flags}-{height}-{SHORT[dtype]}"
                tolerance = _FLOAT16_ULPS if dtype == torch.float16 else tolerances.get(dtype, 0.0)
                yield Case(name, "ResizeBilinear", fields, None, tolerance)
    for pads in ((0, 0, 0, 0), (1, 0, 0, 1)):
        fields = [*pads, 2, 3, In(random(2, 8, 9, 5)), Out(), Out(torch.int32), 0]
        yield Case(f"ArgMaxPooling-{pads[0]}", "ArgMaxPooling", fields)


IMAGES: Final = (*_convolutions(), *_pools())
