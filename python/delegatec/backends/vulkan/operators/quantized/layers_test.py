# SPDX-License-Identifier: Apache-2.0
"""Layers between quantized values, in the reference executor, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.backends.vulkan.operators.quantized.testing import Layer, dq, q, quantized_values, scales
from delegatec.backends.vulkan.testing import compile_module, run_case
from delegatec.backends.vulkan.testing.grid import floats
from delegatec.edge.quantization.operators import quantized

IMAGE: Final = floats(1, 8, 9, 10)
ROWS: Final = floats(5, 16)
OUT: Final = (0.25, -5)


def _weight(layer: Any, axis: int = 0) -> Tensor:
    weight: Tensor = quantized.dequantize_per_channel(
        layer.weight, layer.scale, None, axis, -127, 127, torch.int8
    )
    return weight


def _layer(
    function: Callable[..., Tensor],
    *shape: int,
    act: Callable[[Tensor], Tensor] | None = None,
    out: tuple[float, int] = OUT,
    axis: int = 0,
    bias: bool = True,
    **arguments: Any,
) -> Layer:
    def forward(layer: Any, x: Tensor) -> Tensor:
        result = function(dq(q(x)), _weight(layer, axis), layer.bias, **arguments)
        return dq(q(result if act is None else act(result), *out), *out)

    outputs = shape[axis]
    return Layer(
        forward,
        weight=quantized_values(*shape, low=-127),
        scale=scales(outputs),
        bias=floats(outputs, seed=4) if bias else None,
    )


def _convolution(*shape: int, **arguments: Any) -> Layer:
    return _layer(functional.conv2d, *shape, **arguments)


def _pair(name: str) -> str:
    return f"quantize_per_tensor {name} dequantize_per_tensor"


def _sum(act: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: dq(q(act(dq(q(x)) + dq(q(x * x, 0.125, -20), 0.125, -20)), *OUT), *OUT)


ADDED: Final = "quantize_per_tensor mul.Tensor quantize_per_tensor q8ta_add dequantize_per_tensor"
CASES: Final[dict[str, tuple[Any, Tensor, str]]] = {
    "convolution": (_convolution(12, 8, 3, 3, padding=1), IMAGE, _pair("q8ta_conv2d")),
    "strided, without bias": (_convolution(12, 8, 3, 3, bias=False, stride=2), IMAGE, _pair("q8ta_conv2d")),
    "few channels": (_convolution(7, 3, 3, 3, act=functional.relu), IMAGE[:, :3], _pair("q8ta_conv2d")),
    "dilated": (_convolution(12, 8, 3, 3, dilation=2), IMAGE, _pair("q8ta_conv2d")),
    "pointwise": (_convolution(12, 8, 1, 1), IMAGE, _pair("q8ta_conv2d_pw")),
    "depthwise": (_convolution(7, 1, 5, 5, groups=7, padding=2), IMAGE[:, :7], _pair("q8ta_conv2d_dw")),
    "groups of four": (_convolution(8, 4, 3, 3, groups=2), IMAGE, _pair("q8ta_conv2d")),
    "groups of two": (_convolution(6, 2, 3, 3, groups=3), IMAGE[:, :6], _pair("q8ta_conv2d")),
    "images": (_convolution(12, 8, 3, 3), torch.cat([IMAGE, IMAGE + 1]), ""),
    "clamped": (_convolution(12, 8, 3, 3, act=functional.relu6), IMAGE, ""),
    "clamped by the range": (
        _convolution(12, 8, 3, 3, act=functional.relu6, out=(6 / 255, -128)),
        IMAGE,
        _pair("q8ta_conv2d"),
    ),
    "transposed": (
        _layer(functional.conv_transpose2d, 8, 12, 3, 3, axis=1, stride=2, padding=1, output_padding=1),
        IMAGE,
        _pair("q8ta_conv2d_transposed"),
    ),
    "linear": (_layer(functional.linear, 12, 16, act=functional.relu), ROWS, _pair("q8ta_linear")),
    "linear of one row": (_layer(functional.linear, 7, 16), ROWS[:1], _pair("q8ta_linear_gemv")),
    "linear of batches": (_layer(functional.linear, 12, 16), ROWS.view(1, 5, 16), ""),
    "sum": (_sum(lambda x: x), IMAGE, ADDED),
    "clamped sum": (_sum(functional.relu), IMAGE, ""),
    "relu": (lambda x: dq(q(dq(q(x)).relu(), *OUT), *OUT), IMAGE, _pair("q8ta_relu")),
    "another clamp": (lambda x: dq(q(dq(q(x)).clamp(-1, 1), *OUT), *OUT), IMAGE, ""),
}


@pytest.mark.parametrize("storage", ["texture", "buffer"])
@pytest.mark.parametrize("name", CASES)
def test_layers(name: str, storage: str) -> None:
    layer, x, expected = CASES[name]
    run_case(layer, (x.contiguous(),), expected, storage=storage)


@pytest.mark.parametrize("name", ["convolution", "linear", "relu"])
def test_float16(name: str) -> None:
    """Inputs are quantized as float32, and sums are integers."""
    layer, x, _ = CASES[name]
    run_case(layer, (x,), "", precision="fp16")


def test_a_chain_has_no_floats_inside() -> None:
    first = _convolution(12, 8, 3, 3, act=functional.relu, padding=1)
    chain = nn.Sequential(first, _convolution(12, 1, 3, 3, groups=12), _convolution(8, 12, 1, 1))
    between = "dequantize_per_tensor quantize_per_tensor"
    run_case(chain, (IMAGE,), _pair(f"q8ta_conv2d {between} q8ta_conv2d_dw {between} q8ta_conv2d_pw"))


def test_unsigned_quantized_values() -> None:
    def pair(x: Tensor, scale: float, zero: int) -> Tensor:
        found = quantized.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        result: Tensor = quantized.dequantize_per_tensor(found, scale, zero, 0, 255, torch.uint8)
        return result

    def function(layer: Any, x: Tensor) -> Tensor:
        return pair(functional.conv2d(pair(x, 0.0625, 120), _weight(layer)).relu(), 0.25, 0)

    layer = Layer(function, weight=quantized_values(12, 8, 3, 3, low=-127), scale=scales(12))
    run_case(layer, (IMAGE,), _pair("q8ta_conv2d"))


def _dilated(layer: Any, x: Tensor) -> Tensor:
    return dq(q(functional.conv_transpose2d(dq(q(x)), _weight(layer, 1), dilation=2)))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda layer, x: functional.conv2d(x, _weight(layer)), "float activations"),
        (lambda layer, x: functional.conv2d(dq(q(x)), _weight(layer)), "float activations"),
        (lambda layer, x: dq(q(functional.conv2d(dq(q(x)), _weight(layer, 1)))), "several scales"),
        (
            lambda layer, x: dq(q(functional.conv_transpose2d(dq(q(x)), _weight(layer, 1), dilation=2))),
            "dilation",
        ),
    ],
)
def test_other_convolutions_are_not_delegated(function: Any, reason: str) -> None:
    layer = Layer(function, weight=quantized_values(8, 8, 3, 3), scale=scales(8))
    compiled = compile_module(layer, (IMAGE,))
    (rejection,) = (each for each in compiled.report.rejections if "convolution" in each.operator)
    assert rejection.rule == "quantized" and reason in rejection.message
    torch.testing.assert_close(compiled(IMAGE)[0], layer(IMAGE), rtol=1e-5, atol=1e-5)
