# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of the XNNPACK backend in the stock runtime, and values that are quantized at run time.

These are compared with the same quantization in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.backends.xnnpack.dialect import quantize_dynamically
from delegatec.backends.xnnpack.quantized.testing import Layer, per_tensor, rows
from delegatec.backends.xnnpack.testing.grid import graph_of, operations
from tests.oracle.xnnpack import floats, lowered_program, run

FORMS: Final = {
    "int8": ((20, 64), 8, 0),
    "int4": ((20, 64), 4, 0),
    "int4, an odd number of inputs": ((20, 63), 4, 0),
    "int4 in groups": ((40, 64), 4, 32),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False])
def test_weights_alone(form: str, bias: bool) -> None:
    shape, bits, group = FORMS[form]
    layer = Layer(
        lambda own, x: f.linear(x, own.weight(), own.bias if bias else None), shape, bits, group
    ).eval()
    found, results, wanted = run(layer, floats(5, shape[1]))
    assert found == (["Slice", "FullyConnected"] * 2 + ["Add"] if group else ["FullyConnected"])
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_alone_in_float16(form: str, dtype: torch.dtype) -> None:
    shape, bits, group = FORMS[form]

    def function(own: Layer, x: Tensor) -> Tensor:
        return f.linear(x, own.weight(dtype), own.bias.to(dtype))

    layer, x = Layer(function, shape, bits, group), floats(5, shape[1]).to(dtype)
    options = {"precision": "fp16"} if dtype == torch.float32 else {}
    report, program = lowered_program(layer, (x,), None, options)
    assert (len(report.delegates), report.rejections) == (1, [])
    # quantized values of four bits, and computed in float32
    found = graph_of(report.delegates[0].module.blob_bytes())
    wanted = layer.values.numel() * bits // 8 + 4 * (layer.scales.numel() + shape[0])
    assert wanted <= sum(each.size for each in found.constants) < wanted + shape[0]
    wanted = f.linear(x.half().float(), layer.weight(), layer.bias)
    torch.testing.assert_close(program.run([x])[0], wanted.to(dtype), rtol=2e-3, atol=5e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leading", [(5,), (2, 5), ()])
def test_rows_quantized_at_run_time(form: str, leading: tuple[int, ...]) -> None:
    shape, bits, group = FORMS[form]
    layer = Layer(lambda own, x: f.linear(rows(x), own.weight(), own.bias), shape, bits, group)
    x = floats(*leading, shape[1])
    found, results, _ = run(layer, x)
    assert found == ["Convert", "FullyConnected"]
    wanted = f.linear(quantize_dynamically(x, 1), layer.weight(), layer.bias)
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("quantize", [rows, per_tensor])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows_quantized_at_run_time_in_float16(
    form: str, quantize: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    shape, bits, group = FORMS[form]

    def function(own: Layer, x: Tensor) -> Tensor:
        return f.linear(quantize(x), own.weight(dtype), own.bias.to(dtype))

    layer, x = Layer(function, shape, bits, group), floats(5, shape[1]).to(dtype)
    options = {"precision": "fp16"} if dtype == torch.float32 else {}
    report, program = lowered_program(layer, (x,), None, options)
    assert (len(report.delegates), report.rejections) == (1, [])
    (found,) = program.run([x])
    has_rows = quantize is rows or group > 0
    wanted = f.linear(rounded_half(x, 1 if has_rows else 2), layer.weight(), layer.bias)
    torch.testing.assert_close(found, wanted.to(dtype), rtol=1e-3, atol=0.02)


def rounded_half(x: Tensor, dims: int) -> Tensor:
    """Returns `quantize_dynamically` of float16, with many values halfway between two quantized values.

    The kernel multiplies by the inverse of the scale, and adds the zero point after it rounds.
    """
    x = x.half().float()
    inside = list(range(x.dim() - dims, x.dim()))
    least, most = x.amin(inside, keepdim=True).clamp(max=0), x.amax(inside, keepdim=True).clamp(min=0)
    factor = 255 / (most - least)
    zero = (-128 - least * factor).round().clamp(-128, 127)
    return (x * factor).clamp(-128 - zero, 127 - zero).round() / factor


@pytest.mark.parametrize("form", [name for name in FORMS if "groups" not in name])
@pytest.mark.parametrize("leading", [(5,), (2, 5), (1, 3, 1, 2)])
def test_rows_of_one_scale_that_is_chosen_at_run_time(form: str, leading: tuple[int, ...]) -> None:
    shape, bits, _ = FORMS[form]
    layer = Layer(lambda own, x: f.linear(per_tensor(x), own.weight(), own.bias), shape, bits)
    # rows of different sizes, so that their scales would differ
    x = floats(*leading, shape[1]) * torch.linspace(0.1, 3, leading[-1])[:, None]
    found, results, wanted = run(layer, x)
    assert [each for each in found if each != "Reshape"] == ["Convert", "Convolution"]
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=5e-5)
    apart = f.linear(quantize_dynamically(x, 1), layer.weight(), layer.bias)
    assert (apart - wanted).abs().max() > 100 * (results - wanted).abs().max()


@pytest.mark.parametrize("leading", [(), (1,), (1, 1)])
def test_one_row_is_read_by_a_linear_layer(leading: tuple[int, ...]) -> None:
    layer = Layer(lambda own, x: f.linear(per_tensor(x), own.weight(), own.bias), (20, 64))
    found, results, wanted = run(layer, floats(*leading, 64))
    assert found == ["Convert", "FullyConnected"]
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("quantize", [rows, per_tensor])
def test_one_conversion_for_several_layers(quantize: Callable[[Tensor], Tensor]) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        product = f.linear(quantize(x), layer.weight())
        return product * f.linear(quantize(x), layer.weight(), layer.bias).sigmoid()

    found, results, wanted = run(Layer(function, (20, 64)), floats(5, 64))
    kinds = [each for each in sorted(found) if each != "Reshape"]
    kind = "FullyConnected" if quantize is rows else "Convolution"
    assert kinds == sorted(["Convert", kind, kind, "Multiply", "Sigmoid"])
    torch.testing.assert_close(results, wanted, rtol=0.05, atol=0.5 if quantize is rows else 1e-3)


def test_the_number_of_rows_may_vary() -> None:
    layer = Layer(lambda own, x: f.linear(rows(x), own.weight(), own.bias), (20, 64), 4, 32)
    batch = torch.export.Dim("batch", min=2, max=64)
    report, program = lowered_program(layer, (floats(5, 64),), (({0: batch},),))
    assert (len(report.delegates), report.rejections) == (1, [])
    for count in (5, 64, 2):
        (found,) = program.run([floats(count, 64)])
        wanted = f.linear(quantize_dynamically(floats(count, 64), 1), layer.weight(), layer.bias)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=5e-5)


def test_rows_of_one_scale_may_vary() -> None:
    layer = Layer(lambda own, x: f.linear(per_tensor(x), own.weight(), own.bias), (20, 64))
    batch, length = (torch.export.Dim(name, min=2, max=16) for name in ("batch", "length"))
    report, program = lowered_program(layer, (floats(3, 5, 64),), (({0: batch},),))
    assert (len(report.delegates), report.rejections) == (1, [])
    for count in (3, 16, 2, 7):
        x = floats(count, 5, 64) * torch.linspace(0.1, 3, 5)[:, None]
        torch.testing.assert_close(program.run([x])[0], layer(x), rtol=1e-5, atol=5e-5)
    # The runtime infers one size of a reshape: rows are quantized alone.
    report, program = lowered_program(layer, (floats(3, 5, 64),), (({0: batch, 1: length},),))
    assert (len(report.delegates), report.rejections) == (1, [])
    for sizes in ((3, 5), (16, 16), (2, 4)):
        x = floats(*sizes, 64)
        wanted = f.linear(quantize_dynamically(x, 1), layer.weight(), layer.bias)
        torch.testing.assert_close(program.run([x])[0], wanted, rtol=1e-5, atol=5e-5)


def left(module: nn.Module, *inputs: Tensor) -> set[Any]:
    """Returns the rules by which calls are not delegated."""
    report, program = lowered_program(module, inputs)
    torch.testing.assert_close(program.run(inputs)[0], module(*inputs), rtol=0.02, atol=0.1)
    return {rejection.rule for rejection in report.rejections}


def test_what_no_kernel_multiplies_is_computed_outside() -> None:
    # groups of 16, groups of eight bits, and a value that is read by other calls
    layer = Layer(lambda own, x: f.linear(rows(x), own.weight()), (20, 64), 4, 16)
    assert "dynamic-quantization" in left(layer, floats(5, 64))
    layer = Layer(lambda own, x: f.linear(rows(x), own.weight()), (20, 64), 8, 32)
    assert "dynamic-quantization" in left(layer, floats(5, 64))
    for x in (floats(5, 64), floats(5, 64).half()):
        assert "dynamic-quantization" in left(Layer(lambda _, x: rows(x).relu()), x)
        assert "dynamic-quantization" in left(Layer(lambda _, x: per_tensor(x).relu()), x)


# Precision of the delegate, and dtype of the model.
PRECISIONS: Final = [("fp32", torch.float32), ("fp16", torch.float32), ("fp32", torch.float16)]


@pytest.mark.parametrize(("precision", "dtype"), PRECISIONS)
@pytest.mark.parametrize("shape", [(12, 8, 3, 3), (8, 1, 3, 3), (12, 8, 1, 1)])
def test_convolutions_of_values_that_are_quantized_at_run_time(
    shape: tuple[int, ...], precision: str, dtype: torch.dtype
) -> None:
    groups, padding = 8 // shape[1], shape[-1] // 2

    def function(layer: Layer, x: Tensor) -> Tensor:
        weight, bias = layer.weight(dtype), layer.bias.to(dtype)
        return f.conv2d(per_tensor(x), weight, bias, padding=padding, groups=groups)

    layer, x = Layer(function, shape), floats(1, 8, 9, 11)
    wanted = f.conv2d(quantize_dynamically(x, 3), layer.weight(), layer.bias, padding=padding, groups=groups)
    found = images(layer, x.to(dtype), wanted, precision)
    assert found == around(["Convert", "Convolution"], precision, dtype)


@pytest.mark.parametrize(("precision", "dtype"), PRECISIONS)
@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((8, 6, 3, 3), {}),
        ((8, 6, 1, 1), {}),
        ((8, 6, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((8, 3, 3, 3), {"groups": 2, "dilation": 2}),
        ((8, 1, 2, 2), {"groups": 8, "stride": 2}),
    ],
)
def test_transposed_convolutions_of_values_that_are_quantized_at_run_time(
    shape: tuple[int, ...], arguments: dict[str, int], precision: str, dtype: torch.dtype
) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return f.conv_transpose2d(per_tensor(x), layer.weight(dtype), layer.bias.to(dtype), **arguments)

    layer, x = Layer(function, shape, axis=1), floats(2, 8, 9, 11)
    layer.bias = floats(shape[1] * arguments.get("groups", 1))
    wanted = f.conv_transpose2d(quantize_dynamically(x, 3), layer.weight(), layer.bias, **arguments)
    found = images(layer, x.to(dtype), wanted, precision)
    assert found == around(["Convert", "TransposedConvolution"], precision, dtype)


def around(layers: list[str], precision: str, dtype: torch.dtype) -> list[str]:
    """Returns the operations of layers that compute in float32, with conversions from and to float16."""
    wide = ["Convert"] * (precision == "fp16" or dtype == torch.float16)
    # float32 inputs and outputs of a delegate in float16
    ends = ["Convert"] * (precision == "fp16")
    return [*ends, *wide, *layers, *wide, *ends]


def images(layer: Layer, x: Tensor, wanted: Tensor, precision: str) -> list[str]:
    """Compares a layer with wanted results, and returns its operations without transposes."""
    report, program = lowered_program(layer, (x,), None, {"precision": precision})
    assert (len(report.delegates), report.rejections) == (1, [])
    is_exact = precision == "fp32" and x.dtype == torch.float32
    tolerance = {"rtol": 1e-5, "atol": 5e-5} if is_exact else {"rtol": 0.01, "atol": 0.2}
    torch.testing.assert_close(program.run([x])[0], wanted.to(x.dtype), **tolerance)
    found = operations(report.delegates[0].module.blob_bytes())
    return [each for each in found if each not in ("Transpose", "Reshape")]
