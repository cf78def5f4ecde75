# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic instead of dequantization, floating point and quantization."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.testing import (
    Function,
    calls,
    channels,
    check,
    dequantize,
    integers,
    quantize,
    quantized_values,
    weight,
)
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.interpret import interpret

aten = torch.ops.aten

_UNARY: Final[dict[str, Function]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "silu": f.silu,
    "gelu": f.gelu,
    "hardswish": f.hardswish,
    "leaky relu": f.leaky_relu,
    "several": lambda x: (x.sin() * 2 + 1).tanh() * x,
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(-0.4, 0.7),
    "neg": torch.neg,
    "abs": torch.abs,
    "square": lambda x: x**2,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean((1, 2)),
    "mean of images": lambda x: x.mean((2, 3)),
    "sum of limited images": lambda x: torch.relu(x).sum((-1, -2), keepdim=True) * 0.1,
    "amax": lambda x: x.amax(1),
    "max pool": lambda x: f.max_pool2d(x, 3, 2, 1),
    "avg pool": lambda x: f.avg_pool2d(x, 3, 2, 1),
    "avg pool, padding is not counted": lambda x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "cumsum": lambda x: x.cumsum(2) * 0.2,
    "bilinear": lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    "reflected": lambda x: f.pad(x, (1, 2, 0, 1), mode="reflect"),
    "pad": lambda x: f.pad(x, (1, 2), value=0.25),
    "views": lambda x: x.permute(2, 0, 1, 3).reshape(6, -1)[1:5].unsqueeze(1),
    "product with a scalar": lambda x: x * -1.7,
    "where": lambda x: torch.where(x > 0.1, x, -x),
    "where of a condition that others need": lambda x: torch.where(x > 0.1, x, -x) + (x > 0.1).float() * 0.2,
    "where of several conditions": lambda x: torch.where((x > 0.1) | ~(x > -0.2), x.exp() - 1, x * 0.5),
}


def test_rows_of_a_constant() -> None:
    """Embeddings as quantizers write them: the result has the parameters of the weight."""
    rows = dequantize(quantized_values(16, 5), 0.02, 3)
    program = check(
        lambda weight, x: quantize(f.embedding(x, dequantize(weight, 0.02, 3)), 0.02, 3),
        *(quantized_values(16, 5), torch.tensor([[3, 15], [0, 7]])),
        tolerance=0,
    )
    assert calls(program) == [aten.embedding.default]
    check(lambda x: quantize(f.embedding(x, rows), 0.02, 3), torch.tensor([[3, 15], [0, 7]]), tolerance=0)


def test_constant_scalars() -> None:
    """A result that is a quantized constant has its shape, also without dimensions."""
    program = integers(
        lambda x: (quantize(torch.tensor(0.7), 0.01), quantize(dequantize(x, 0.02), 0.01)),
        (quantized_values(4),),
    )
    constant, _ = interpret(program, [quantized_values(4)])
    assert constant.shape == () and int(constant) == 70


@pytest.mark.parametrize("out", [torch.int8, torch.int16])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_quantized_values_outside_of_the_domain_of_a_function(dtype: torch.dtype, out: torch.dtype) -> None:
    """They have no value, or an infinite one, which limits neither the scale nor the precision of others."""
    scale = {torch.int8: 1 / 8, torch.int16: 1 / 1024}[dtype]
    to = {torch.int8: (1 / 200, -128), torch.int16: (1 / 32768, 0)}[out]
    x, y = (quantized_values(4, 6, dtype=dtype, seed=seed).abs().clamp(min=int(1 / scale)) for seed in (0, 1))
    tolerance = {torch.int8: 1, torch.int16: 64}[out]  # an int16 table has 513 entries
    check(lambda x: quantize(torch.rsqrt(dequantize(x, scale)), *to, out), x, tolerance=tolerance)
    check(
        lambda x, y: quantize(torch.rsqrt(dequantize(x, scale)) * dequantize(y, scale), 1 / 4, 0, out),
        *(x, y),
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
@pytest.mark.parametrize("name", _UNARY)
def test_functions_of_one_value(name: str, dtype: torch.dtype) -> None:
    scale, zero = {torch.int8: (0.01, -7), torch.uint8: (0.01, 100), torch.int16: (1 / 16384, 0)}[dtype]
    out = {torch.int8: (0.015, 5), torch.uint8: (0.015, 90), torch.int16: (1 / 8192, 0)}[dtype]

    def function(x: torch.Tensor) -> Any:
        return quantize(_UNARY[name](dequantize(x, scale, zero)), *out, dtype)

    check(function, quantized_values(2, 3, 6, 6, dtype=dtype), tolerance=2 if dtype == torch.int16 else 1)


_BINARY: Final[dict[str, Function]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "quotient": lambda x, y: x / (y.abs() + 1),
    "cat": lambda x, y: torch.cat([x, y, x], -1),
    "index_put": lambda x, y: x.index_put([torch.tensor([1, 0])], y),
    "matmul": lambda x, y: x @ y.mT,
    "add, relu and add": lambda x, y: torch.relu(x + y) + y,
}


@pytest.mark.parametrize("name", _BINARY)
def test_functions_of_two_values(name: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return quantize(_BINARY[name](dequantize(x, 0.01, -7), dequantize(y, 0.02, 11)), 0.03, 2)

    check(function, quantized_values(2, 3, 6), quantized_values(2, 3, 6, seed=1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_layers(dtype: torch.dtype) -> None:
    """Per-channel scales, and a floating-point bias."""
    kernel, scales = weight(4, 3, 3, 3)
    matrix, more = weight(5, 36)
    scale, zero = {torch.int8: (0.01, -7), torch.uint8: (0.01, 100), torch.int16: (1 / 16384, 0)}[dtype]
    inner: Any = (1 / 32768, 0, dtype) if dtype == torch.int16 else (0.005, -128, torch.int8)

    def function(x: torch.Tensor) -> Any:
        x = f.conv2d(dequantize(x, scale, zero), channels(kernel, scales), torch.linspace(-1, 1, 4), 2, 1)
        x = dequantize(quantize(torch.relu(x), *inner), *inner[:2])
        return quantize(f.linear(x.flatten(1), channels(matrix, more), torch.linspace(-1, 1, 5)), 0.02)

    check(function, quantized_values(2, 3, 6, 6, dtype=dtype))


def test_relu_is_saturation() -> None:
    """A layer is one convolution and one RESCALE."""
    kernel, scales = weight(4, 3, 3, 3)

    def function(x: torch.Tensor) -> Any:
        x = f.conv2d(dequantize(x, 0.01, -7), channels(kernel, scales))
        return quantize(torch.relu(x), 0.005, -128)

    called = calls(integers(function, (quantized_values(1, 3, 6, 6),)))
    assert called == [
        aten.permute.default,
        NHWC.conv2d.default,
        TOSA.rescale.default,
        aten.permute.default,
    ]


@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (1, 48, 14, 14), (1, 37, 9, 9), (1, 16, 56, 56)])
def test_sums_of_images_are_convolutions(shape: tuple[int, ...]) -> None:
    """NPUs transpose values to reduce them, and need a cycle per weight."""

    def function(x: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01, -7).mean((-1, -2), keepdim=True), 0.0005, 4)

    program = check(function, quantized_values(*shape))
    called = calls(program)
    assert aten.sum.dim_IntList not in called
    (convolution,) = (node for node in program.graph.nodes if node.target is NHWC.conv2d.default)
    assert math.prod(convolution.args[1].meta["val"].shape) <= 16 * 64


@pytest.mark.parametrize("shape", [(1, 16, 67, 67), (1, 16, 1, 1)])
def test_other_sums_of_images(shape: tuple[int, ...]) -> None:
    """The element count has no divisor that can be a kernel height."""

    def function(x: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01, -7).mean((-1, -2), keepdim=True), 0.0005, 4)

    assert NHWC.conv2d.default not in calls(check(function, quantized_values(*shape)))


@pytest.mark.parametrize("scale", [0.01, 0.003])
@pytest.mark.parametrize("counted", [True, False])
def test_pools_of_whole_images_are_sums(scale: float, counted: bool) -> None:
    """Also with padding, and with the parameters of the operand."""

    def function(x: torch.Tensor) -> Any:
        y = dequantize(x, 0.01, -7)
        padded = f.avg_pool2d(y, (9, 7), 1, 1, count_include_pad=counted)
        return quantize(f.avg_pool2d(y, (7, 5)), scale, -7), quantize(padded, scale, -7)

    x = quantized_values(1, 6, 7, 5)
    program = integers(function, (x,))
    assert NHWC.avg_pool2d.default not in calls(program)
    for result, wanted in zip(interpret(program, (x,)), function(x), strict=True):
        assert (result.to(torch.int64) - wanted).abs().max() <= 1
        assert wanted.min() < wanted.max()


def test_an_average_with_a_divisor_has_the_digits_of_the_sum() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return quantize(f.avg_pool2d(dequantize(x, 0.01, -7), 3, 1, 1, divisor_override=2), 0.01, -7)

    check(function, quantized_values(1, 6, 7, 5))


@pytest.mark.parametrize("shape", [(2, 16, 12, 12), (1, 8, 8, 24), (1, 12, 9, 8)])
def test_sums_of_groups_are_convolutions(shape: tuple[int, ...]) -> None:
    """Groups of channels are rows, whose images are added first."""

    def function(x: torch.Tensor) -> Any:
        y = dequantize(x, 0.05, 3).view(shape[0], 4, -1)
        return quantize(y.mean(-1, keepdim=True), 0.002)

    program = check(function, quantized_values(*shape))
    assert NHWC.conv2d.default in calls(program)


@pytest.mark.parametrize("call", [torch.add, torch.sub, torch.mul])
def test_quantized_constants_are_quantized_values(call: Any) -> None:
    """NPUs compute directly on int8 operands."""
    constant = quantized_values(6, 1, seed=3)

    def function(x: torch.Tensor) -> Any:
        return quantize(call(dequantize(x, 0.05, 3), dequantize(constant, 0.01, -7)), 0.05, 2)

    program = check(function, quantized_values(2, 6, 5))
    rescaled = [
        node.args[0] for node in program.graph.find_nodes(op="call_function", target=TOSA.rescale.default)
    ]
    assert any(node.op == "placeholder" and node.name in program.constants for node in rescaled)


def test_equal_parameters_need_no_call() -> None:
    """Movement keeps integers."""

    def function(x: torch.Tensor) -> Any:
        return quantize(dequantize(quantize(dequantize(x, 0.01).view(4, 2), 0.01), 0.01).t(), 0.01)

    assert calls(integers(function, (quantized_values(2, 4),))) == [aten.view.default, aten.permute.default]


def test_values_without_parameters_are_accumulators() -> None:
    """A residual block of which only the sum is quantized."""
    kernel, scales = weight(3, 3, 3, 3)

    def function(x: torch.Tensor) -> Any:
        y = dequantize(x, 0.01, -7)
        return quantize(torch.relu(f.conv2d(y, channels(kernel, scales), padding=1) + y), 0.01, -128)

    check(function, quantized_values(1, 3, 6, 6))


@pytest.mark.parametrize("factor", [0.001, 0.02, 0.1])
def test_softmax(factor: float) -> None:
    """Exponentials have 15 bits, and quotients 14 after the point."""

    def function(x: torch.Tensor) -> Any:
        return quantize(torch.softmax(dequantize(x, factor, 9), 1), 1 / 256, -128)

    check(function, quantized_values(3, 7, 5))


def test_constants_are_moved_by_indices() -> None:
    """Rows of a quantized table."""
    table, _ = weight(9, 4)

    def function(index: torch.Tensor) -> Any:
        return quantize(f.embedding(index, dequantize(table, 0.01, 3)), 0.012)

    check(function, torch.tensor([[1, 0, 3], [8, 8, 2]]))


def test_scales_that_saturate() -> None:
    """All values but zero are beyond the range."""

    def function(x: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01), 1e-12)

    check(function, quantized_values(20))


def test_sums_of_quantized_values_have_a_power_of_two() -> None:
    """The larger scale is multiplied by 2^19."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01) + dequantize(y, 0.02), 0.03)

    program = check(function, quantized_values(9), quantized_values(9, seed=1))
    found = [node.args[1:3] for node in program.graph.nodes if node.target is TOSA.rescale.default]
    assert ([1 << 30], [11]) in [tuple(map(list, each)) for each in found]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_integers_that_are_quantized(dtype: torch.dtype) -> None:
    """Their conversion to floating point is a scale of 1."""
    x = torch.tensor([-128, -1, 0, 1, 7, 100, 127], dtype=torch.int32).to(dtype)
    check(lambda x: quantize(x.float(), 1.7, -3), x, tolerance=0)
    check(lambda x: quantize(x.float(), 1.0, 0, torch.int16), x, tolerance=0)


def test_a_sum_with_integers_of_32_bits() -> None:
    """Their range is clamped to the representable range of the result."""
    x = torch.tensor([-5, 0, 2, 7, 90, -(1 << 31), 1 << 30], dtype=torch.int32)

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        integral = dequantize(quantize(x.float(), 1.0, 0, torch.int32), 1.0)
        return quantize(integral + dequantize(y, 0.02, -37), 0.17, -2)

    check(function, x, quantized_values(7))


def test_a_constant_of_integers() -> None:
    check(
        lambda x: quantize(dequantize(x, 0.02) * torch.arange(5) + torch.eye(5), 0.05), quantized_values(5, 5)
    )


@pytest.mark.parametrize("out", [torch.int8, torch.uint8, torch.int16])
def test_quantized_values_that_are_nan(out: torch.dtype) -> None:
    """They become 0, as in eager mode."""
    x = torch.tensor([-128, 0, 3, 40, 127], dtype=torch.int8)
    check(lambda x: quantize(torch.acosh(dequantize(x, 0.5)), 0.05, 9, out), x, tolerance=0)


def test_a_selection_by_quantized_values_is_a_table() -> None:
    def function(x: torch.Tensor) -> Any:
        x = dequantize(x, 0.01)
        return quantize(torch.where((x > 0.1) & (x < 0.7), x.exp(), x.sin()).clamp(max=1.5), 0.02)

    assert calls(check(function, quantized_values(40))) == [TOSA.table.default]


def test_a_condition_with_several_users() -> None:
    """A table, and an operator on bools that needs it."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        x = dequantize(x, 0.01)
        return quantize(torch.where(x > 0.1, x.exp(), x), 0.02), torch.logical_and(x > 0.1, y)

    args = (quantized_values(40), torch.arange(40) % 2 == 0)
    wanted = function(*args)
    for result, each in zip(interpret(integers(function, args), args), wanted, strict=True):
        assert torch.equal(result, each) if each.dtype == torch.bool else (result - each).abs().max() <= 1


def test_constants_of_equal_elements_in_tables() -> None:
    def function(x: torch.Tensor) -> Any:
        x = dequantize(x, 0.01)
        return quantize(torch.where(x < 0.2, x * torch.full([8], 0.5), x.exp()) + torch.ones(8), 0.03)

    assert calls(check(function, quantized_values(5, 8))) == [TOSA.table.default]


def test_a_mask_as_a_factor() -> None:
    check(
        lambda x, mask: quantize(dequantize(x, 0.01) * mask.float(), 0.01),
        quantized_values(40),
        quantized_values(40) > 3,
    )


def test_masks_far_beyond_the_range() -> None:
    """The lowest finite value is as good as minus infinity."""
    mask = torch.tensor([0.0, -math.inf, torch.finfo(torch.float32).min, 0.0])

    def function(x: torch.Tensor) -> Any:
        return quantize(dequantize(x, 0.01) + mask.clamp(min=-3e38), 0.02)

    check(function, quantized_values(8, 4))


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_a_constant_far_beyond_the_other_term(factor: float) -> None:
    """The range of the result has room for it, unlike for a mask."""
    check(
        lambda x: quantize(dequantize(x, 2.0**-24) * factor + torch.linspace(-5, 5, 40), 0.05),
        quantized_values(40),
    )
