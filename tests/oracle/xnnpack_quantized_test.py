# SPDX-License-Identifier: Apache-2.0
"""int8 activations of the XNNPACK backend in the stock runtime.

Layers compute the quantized values of eager mode; those of other operations differ by at most one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.testing import Layer, dq, q, qdq
from tests.oracle.xnnpack import assert_quantized_close, floats, run

STEP: Final = 0.0625
dequantize_channels: Final = torch.ops.quantized_decomposed.dequantize_per_channel


Function = Callable[[Tensor], Tensor]
UNARY: Final[dict[str, tuple[Function, float, int]]] = {
    "Absolute": (torch.abs, 0.05, -128),
    "Ceiling": (torch.ceil, 0.0625, 0),
    "Elu": (f.elu, 0.04, -90),
    "Exp": (torch.exp, 0.5, -128),
    "Floor": (torch.floor, 0.0625, 0),
    "Gelu": (f.gelu, 0.03, -110),
    "HardSwish": (f.hardswish, 0.03, -115),
    "LeakyRelu": (lambda x: f.leaky_relu(x, 0.1), 0.04, -90),
    "Negate": (torch.neg, 0.0625, -3),
    "Sigmoid": (torch.sigmoid, 1 / 256, -128),
    "Tanh": (torch.tanh, 1 / 128, 0),
    "Clamp": (lambda x: x.clamp(-1.0, 2.5), 0.0625, 3),
    "Add": (lambda x: x + 1.25, 0.0625, -10),
    "Multiply": (lambda x: x * -0.75, 0.0625, -10),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_value(name: str) -> None:
    function, scale, zero = UNARY[name]
    found, results, wanted = run(Layer(lambda _, x: qdq(function(qdq(x)), scale, zero)), floats(3, 5, 64))
    assert found == ["Convert", name, "Convert"]
    assert_quantized_close(results, wanted, scale, 0.2)


BINARY: Final = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shape", [(3, 5, 64), (64,), (5, 1)])
def test_functions_of_two_values(name: str, shape: tuple[int, ...]) -> None:
    def function(_: Layer, x: Tensor, y: Tensor) -> Tensor:
        return qdq(BINARY[name](qdq(x), qdq(y, 0.043, -7)), 0.08, 11)

    found, results, wanted = run(Layer(function), floats(3, 5, 64), floats(*shape, seed=1))
    assert found == ["Convert", "Convert", name, "Convert"]
    assert_quantized_close(results, wanted, 0.08, 0.35)


@pytest.mark.parametrize("shape", [(), (1,), (256,), (1, 256)])
def test_a_chain_of_functions_that_meets_the_first_input(shape: tuple[int, ...]) -> None:
    """The runtime's graph of the chain has no data of that input: the process ends when it is loaded."""
    found, results, wanted = run(Layer(lambda _, x: qdq(qdq(x) + 1.25, 0.0625, -10) > x), floats(*shape))
    assert found[:3] == ["Convert", "Add", "Convert"]
    assert torch.equal(results, wanted)


def test_moves_keep_quantized_values() -> None:
    def function(_: Layer, x: Tensor) -> Tensor:
        x = qdq(qdq(x).view(3, 64, 5))
        x = qdq(qdq(x[:, 1:]).permute(2, 0, 1))
        return qdq(f.pad(x, (1, 0), value=0.25)).relu()

    found, results, wanted = run(Layer(function), floats(3, 5, 64))
    assert found == ["Convert", "Reshape", "Slice", "Transpose", "ConstantPad", "Clamp", "Convert"]
    assert torch.equal(results, wanted)


def test_concatenated_values_get_one_scale() -> None:
    def function(_: Layer, x: Tensor, y: Tensor) -> Tensor:
        return qdq(torch.cat([qdq(x).neg(), qdq(qdq(y, 0.04, -7).abs(), 0.04, -7)], 1), 0.07, 5)

    found, results, wanted = run(Layer(function), floats(3, 5), floats(3, 4, seed=1))
    assert sorted(found) == ["Absolute", "Concatenate2", *["Convert"] * 4, "Negate"]
    assert_quantized_close(results, wanted, 0.07, 0.1)


def test_constants_are_joined_in_the_scale_of_the_result() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        joined = torch.cat([layer.weight(), qdq(x).neg(), torch.full((1, 1), 0.7).expand(1, 1)], 0)
        return qdq(joined, 0.07, 5).abs()

    layer = Layer(function, (3, 1))
    layer.scales = layer.scales[:1].expand(3)
    found, results, wanted = run(layer, floats(4, 1))
    assert sorted(found) == ["Absolute", "Concatenate3", "Convert", "Convert", "Negate"]
    assert_quantized_close(results, wanted, 0.07, 0.2)
    constant = [0, 1, 2, 7]
    assert torch.equal(results[constant], wanted[constant])


def test_layers_may_read_one_constant_with_several_scales() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        other = dequantize_channels(layer.values, layer.scales * 3, layer.zeros, 0, -127, 127, torch.int8)
        # the last two are matrix products, not layers
        product = x[:, :4] @ layer.weight()[:4, :4] @ other[:4, :4]
        return torch.cat([f.linear(x, layer.weight()), f.linear(x, other), product], 1)

    _, results, wanted = run(Layer(function, (20, 48)), floats(7, 48))
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(7, 48), (2, 3, 48)])
@pytest.mark.parametrize("bits", [8, 4])
def test_linear_layers_compute_the_quantized_values_of_eager_mode(shape: tuple[int, ...], bits: int) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return qdq(f.linear(qdq(x), layer.weight(), layer.bias).relu(), 0.3, -100)

    found, results, wanted = run(Layer(function, (20, 48), bits), floats(*shape))
    assert found == ["Convert", "FullyConnected", "Convert"]
    # the bias is quantized with the scale of the products
    assert_quantized_close(results, wanted, 0.3, 0.01)


def test_a_quantized_bias() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        steps = layer.scales * STEP
        bias = torch.ops.quantized_decomposed.dequantize_per_channel(
            layer.values[:, 0].int() * 100, steps, layer.zeros, 0, -(2**31), 2**31 - 1, torch.int32
        )
        return qdq(f.linear(qdq(x), layer.weight(), bias), 0.3, -10)

    found, results, wanted = run(Layer(function, (20, 48)), floats(7, 48))
    assert found == ["Convert", "FullyConnected", "Convert"]
    assert_quantized_close(results, wanted, 0.3, 0)


def test_unsigned_quantized_values() -> None:
    def unsigned(x: Tensor, scale: float, zero: int) -> Tensor:
        integers = torch.ops.quantized_decomposed.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(
            integers, scale, zero, 0, 255, torch.uint8
        )

    def function(layer: Layer, x: Tensor) -> Tensor:
        return unsigned(f.linear(unsigned(x, STEP, 120), layer.weight()), 0.3, 140)

    found, results, wanted = run(Layer(function, (20, 48)), floats(7, 48))
    assert found == ["Convert", "FullyConnected", "Convert"]
    assert_quantized_close(results, wanted, 0.3, 0)


def test_quantized_values_without_the_least_one() -> None:
    parameters = (STEP, 0, -127, 127, torch.int8)

    def symmetric(x: Tensor) -> Tensor:
        integers = torch.ops.quantized_decomposed.quantize_per_tensor(x, *parameters)
        result: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(integers, *parameters)
        return result

    def function(layer: Layer, x: Tensor) -> Tensor:
        return symmetric(f.linear(symmetric(x), layer.weight()))

    found, results, wanted = run(Layer(function, (20, 48)), floats(7, 48) * 4)
    assert found == ["Clamp", "Convert", "FullyConnected", "Convert"]
    assert wanted.min() == -127 * STEP
    assert_quantized_close(results, wanted, STEP, 0)


def test_16_bit_values_are_computed_in_floating_point() -> None:
    parameters = (2.0**-12, 0, -32767, 32767, torch.int16)

    def wide(x: Tensor) -> Tensor:
        integers = torch.ops.quantized_decomposed.quantize_per_tensor(x, *parameters)
        result: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(integers, *parameters)
        return result

    def function(layer: Layer, x: Tensor) -> Tensor:
        return wide(f.linear(wide(x), layer.weight(), layer.bias))

    found, results, wanted = run(Layer(function, (20, 48)), floats(7, 48) * 4)
    # bounds that values reach
    assert found == ["Clamp", "FullyConnected"]
    assert wanted.max() == 32767 / 4096
    # 48 products of values that differ by half a quantization step
    torch.testing.assert_close(results, wanted, rtol=0, atol=24 * 2.0**-12)


def test_quantized_inputs_and_outputs() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return q(f.linear(dq(x), layer.weight()), 0.3, -10)

    integers = torch.randint(-128, 128, (7, 48), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    found, results, wanted = run(Layer(function, (20, 48)), integers)
    assert found == ["FullyConnected"]
    assert results.dtype == torch.int8 and torch.equal(results, wanted)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_quantized_images_as_inputs_and_outputs(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    parameters = (STEP, 131 + limits.min, limits.min, limits.max, dtype)

    def function(layer: Layer, x: Tensor) -> Tensor:
        x = torch.ops.quantized_decomposed.dequantize_per_tensor(x, *parameters)
        x = f.conv2d(x, layer.weight(), padding=1)
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, *parameters)  # type: ignore[no-any-return]

    generator = torch.Generator().manual_seed(0)
    integers = torch.randint(limits.min, limits.max + 1, (1, 8, 5, 7), generator=generator).to(dtype)
    found, results, wanted = run(Layer(function, (12, 8, 3, 3)), integers)
    assert found.count("Convolution") == 1 and (dtype == torch.uint8 or "Convert" not in found)
    assert results.dtype == dtype and torch.equal(results, wanted)


def test_calls_without_int8_kernels_compute_in_floating_point() -> None:
    found, results, wanted = run(
        Layer(lambda _, x: qdq(qdq(x).softmax(-1), 1 / 256, -128).neg()), floats(3, 5, 64)
    )
    assert found == ["Convert", "Convert", "Softmax", "Convert", "Convert", "Negate"]
    torch.testing.assert_close(results, wanted, rtol=0, atol=1 / 256)


CONVOLUTIONS: Final[dict[str, tuple[tuple[int, ...], dict[str, Any]]]] = {
    "3 x 3": ((12, 8, 3, 3), {"padding": 1}),
    "1 x 1": ((12, 8, 1, 1), {}),
    "stride, dilation": ((12, 8, 3, 3), {"stride": 2, "dilation": 2, "padding": (2, 1)}),
    "groups": ((12, 4, 3, 3), {"groups": 2}),
    "depthwise": ((8, 1, 3, 3), {"groups": 8, "padding": 1}),
    "depthwise, two outputs of a channel": ((16, 1, 5, 5), {"groups": 8, "stride": 2, "padding": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_compute_the_quantized_values_of_eager_mode(name: str) -> None:
    shape, options = CONVOLUTIONS[name]

    def function(layer: Layer, x: Tensor) -> Tensor:
        return qdq(f.conv2d(qdq(x), layer.weight(), layer.bias, **options).clamp(0.0, 6.0), 0.1, -128)

    found, results, wanted = run(Layer(function, shape), floats(2, 8, 9, 11))
    kind = "DepthwiseConvolution" if shape[1] == 1 else "Convolution"
    assert [each for each in found if each != "Transpose"] == ["Convert", kind, "Convert"]
    assert_quantized_close(results, wanted, 0.1, 0.01)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(groups: int) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        weight, bias = layer.weight(), layer.bias.repeat(groups)
        options: Any = {"stride": 2, "padding": 1, "output_padding": 1, "groups": groups}
        return qdq(f.conv_transpose2d(qdq(x), weight, bias, **options), 0.3, -10)

    found, results, wanted = run(Layer(function, (8, 6, 3, 3), axis=1), floats(2, 8, 5, 7))
    assert [each for each in found if each != "Transpose"] == ["Convert", "TransposedConvolution", "Convert"]
    assert_quantized_close(results, wanted, 0.3, 0.01)


def test_transposed_convolutions_of_blocks() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        result = f.conv_transpose2d(qdq(x), layer.weight(), layer.bias, stride=(2, 3))
        return qdq(result.relu(), 0.1, -128)

    found, results, wanted = run(Layer(function, (8, 6, 2, 3), axis=1), floats(2, 8, 5, 7))
    moves = ("Transpose", "Reshape")
    assert [each for each in found if each not in moves] == ["Convert", "FullyConnected", "Convert"]
    assert_quantized_close(results, wanted, 0.1, 0.01)


def test_convolutions_of_sequences() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return qdq(f.conv1d(qdq(x), layer.weight(), layer.bias, padding=1), 0.3, -10)

    found, results, wanted = run(Layer(function, (12, 8, 3)), floats(2, 8, 11))
    assert "Convolution" in found and found.count("Convert") == 2
    assert_quantized_close(results, wanted, 0.3, 0.01)


IMAGES: Final[dict[str, Function]] = {
    "MaxPooling": lambda x: f.max_pool2d(x, 3, 2, 1),
    "GlobalAveragePooling": lambda x: x.mean((2, 3), keepdim=True),
    "ResizeBilinear": lambda x: f.interpolate(x, (9, 16), mode="bilinear"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_between_layers(name: str) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        x = qdq(f.conv2d(qdq(f.pad(qdq(x), (1, 0, 1, 0))), layer.weight(), layer.bias))
        return qdq(qdq(IMAGES[name](x)).neg(), STEP, -3)

    found, results, wanted = run(Layer(function, (8, 8, 1, 1)), floats(1, 8, 8, 8))
    found = [each for each in found if each not in ("Transpose", "Reshape", "Slice")]
    assert found == ["Convert", "Convolution", name, "Negate", "Convert"]
    assert_quantized_close(results, wanted, STEP, 0.3)


def test_float_convolutions_with_quantized_weights() -> None:
    layer = Layer(lambda own, x: f.conv2d(x, own.weight(), own.bias, padding=1), (12, 8, 3, 3))
    found, results, wanted = run(layer, floats(2, 8, 9, 11))
    assert "Convolution" in found and "Convert" not in found
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=5e-5)
