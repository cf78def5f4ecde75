# SPDX-License-Identifier: Apache-2.0
"""Operators that other quantizers do not decompose, and steep functions of values without parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.arm.integer.testing import Function, dequantize, quantize, quantized_values
from delegatec.backends.arm.testing import compile_module, operators
from delegatec.backends.common.testing import Call, eager, floats

_SHAPES: Final = {"rows": (3, 4, 16), "images": (2, 16, 5, 5), "heads": (1, 2, 6, 16)}
_WEIGHT: Final = floats(16, seed=3) * 0.4 + 1.2
_BIAS: Final = floats(16, seed=4)


def _cosine(x: torch.Tensor) -> torch.Tensor:
    return f.cosine_similarity(x, x.flip(0), -1)


def _batch_norm(x: torch.Tensor) -> torch.Tensor:
    return f.batch_norm(x, _BIAS * 0.1, _WEIGHT, _WEIGHT, _BIAS)


# Name -> its operand, the function, and the maximum error in int16 LSBs against eager mode.
_COMPOSITES: Final[dict[str, tuple[str, Function, int]]] = {
    "softmax": ("rows", lambda x: f.softmax(x, -1), 2),
    "softmax of columns": ("rows", lambda x: f.softmax(x, 1), 3),
    "log_softmax": ("rows", lambda x: f.log_softmax(x, -1), 2),
    "logsumexp": ("rows", lambda x: torch.logsumexp(x, -1), 2),
    "layer_norm": ("rows", lambda x: f.layer_norm(x, (16,), _WEIGHT, _BIAS), 3),
    "layer_norm of planes": ("rows", lambda x: f.layer_norm(x, (4, 16)), 3),
    "rms_norm": ("rows", lambda x: f.rms_norm(x, (16,), _WEIGHT), 3),
    "group_norm": ("images", lambda x: f.group_norm(x, 4, _WEIGHT, _BIAS), 4),
    "instance_norm": ("images", f.instance_norm, 4),
    "batch_norm": ("images", _batch_norm, 3),
    "var": ("rows", lambda x: x.var(-1), 2),
    "std": ("rows", lambda x: x.std((0, 2), correction=0, keepdim=True), 3),
    "norm": ("rows", lambda x: torch.linalg.vector_norm(x, dim=-1), 2),
    "normalize": ("rows", lambda x: f.normalize(x, dim=-1), 4),
    "cosine": ("rows", _cosine, 12),
    "pixel norm": ("images", lambda x: x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-3), 3),
    "quotient": ("rows", lambda x: x / (x.flip(0).abs() + 0.2), 2),
    "signed quotient": ("rows", lambda x: 0.1 / (x.sum(-1) + 0.05), 2),
    "rsqrt": ("rows", lambda x: torch.rsqrt(x.abs() + 0.1), 2),
    "power": ("rows", lambda x: (x.abs() + 0.1) ** -0.5, 2),
    "log": ("rows", lambda x: torch.log(x.abs() + 0.01), 2),
    "log1p": ("rows", lambda x: torch.log1p(x.square().mean(-1)), 2),
    "log1p of small values": ("rows", lambda x: torch.log1p(x.square().sum(-1) * 1e-5), 3),
    "exp": ("rows", lambda x: torch.exp(x.sum(-1) * 0.2), 3),
    "glu": ("rows", f.glu, 2),
    "uneven windows": ("images", lambda x: f.adaptive_avg_pool2d(x, (3, 2)), 1),
    "attention": ("heads", lambda x: f.scaled_dot_product_attention(x, x * 0.5, x), 6),
    "causal attention": ("heads", lambda x: f.scaled_dot_product_attention(x, x, x, is_causal=True), 20),
}


def _quantized(
    function: Function, shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[Callable[..., Any], torch.Tensor]:
    """Returns the function on quantized values, and an operand from about -4 to 4."""
    most = 2 ** (8 * dtype.itemsize - 1) - 1
    zero = 9 if dtype == torch.int8 else 0
    x = quantized_values(*shape, dtype=dtype)
    wanted = function(dequantize(x, 4 / most, zero))
    if dtype == torch.int8:
        low, high = min(float(wanted.min()), 0.0), max(float(wanted.max()), 0.0)
        scale = (high - low) / 255
        return lambda x: quantize(
            function(dequantize(x, 4 / most, zero)), scale, round(-low / scale) - 128
        ), x
    scale = float(wanted.abs().max()) / most
    return lambda x: quantize(function(dequantize(x, 4 / most)), scale, 0, torch.int16), x


def _largest_error(function: Callable[..., Any], x: torch.Tensor, specification: str) -> int:
    compiled = compile_module(Call(function), (x,), specification=specification)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    (result,), (wanted,) = compiled(x), eager(Call(function), (x,))
    assert wanted.min() < wanted.max()
    return int((result.to(torch.int64) - wanted.to(torch.int64)).abs().max())


@pytest.mark.parametrize("name", _COMPOSITES)
@pytest.mark.parametrize("specification", ["TOSA-1.0+INT", "TOSA-1.0+INT+int16"])
def test_of_int8(name: str, specification: str) -> None:
    """Results differ from eager mode by at most one quantization step."""
    operand, function, _ = _COMPOSITES[name]
    assert _largest_error(*_quantized(function, _SHAPES[operand], torch.int8), specification) <= 1


@pytest.mark.parametrize("name", _COMPOSITES)
def test_of_int16(name: str) -> None:
    """Intermediate values have 15 to 31 bits."""
    operand, function, most = _COMPOSITES[name]
    assert _largest_error(*_quantized(function, _SHAPES[operand], torch.int16), "TOSA-1.0+INT+int16") <= most


@pytest.mark.parametrize(
    "name",
    ["softmax", "log_softmax", "layer_norm", "group_norm", "attention", "causal attention", "normalize"],
)
def test_on_small_npus(name: str) -> None:
    """Neither divisions, comparisons nor selections are needed."""
    operand, function, _ = _COMPOSITES[name]
    shape = (1, *_SHAPES[operand][1:])
    assert _largest_error(*_quantized(function, shape, torch.int8), "TOSA-1.0+INT+u55") <= 1


def test_operators_of_a_softmax() -> None:
    """The reciprocal is a table of the mantissa; the exponent is a shift."""
    function, x = _quantized(lambda x: f.softmax(x, -1), (4, 8), torch.int8)
    compiled = compile_module(Call(function), (x,), specification="TOSA-1.0+INT+int16")
    found = operators(compiled)
    assert "INTDIV" not in found
    assert [found.count(each) for each in ("CLZ", "ARITHMETIC_RIGHT_SHIFT", "REDUCE_SUM")] == [1, 1, 1]


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("eps", [1e-12, 1e-5])
def test_norms_at_any_scale(scale: float, eps: float) -> None:
    """The exponent of the variance is separate, so that its range does not matter."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return f.layer_norm(x * scale, (32,), None, None, eps)

    quantized, x = _quantized(function, (4, 32), torch.int8)
    assert _largest_error(quantized, x // 16, "TOSA-1.0+INT") <= 1


def test_masked_rows() -> None:
    """A masked score is as good as minus infinity."""
    mask = torch.tensor([0.0, -math.inf, 0.0, -1e9, 0.0, 0.0])

    def function(x: torch.Tensor) -> torch.Tensor:
        return f.softmax(x + mask, -1)

    assert _largest_error(*_quantized(function, (5, 6), torch.int8), "TOSA-1.0+INT") <= 1


@pytest.mark.parametrize("specification", ["TOSA-1.0+INT", "TOSA-1.0+INT+FP"])
def test_a_power_of_a_scalar_with_quantized_values(specification: str) -> None:
    """It has no quantized values, although its first operand is a constant."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return quantize(dequantize(x, 0.03, 3) * 2, 0.06, 0), torch.pow(torch.tensor(2.0), y)

    args = quantized_values(4), floats(3, 4)
    compiled = compile_module(Call(function), args, specification=specification)
    has_floats = specification.endswith("FP")
    assert [name for name, _, _ in compiled.left] == ([] if has_floats else ["aten.pow.Tensor_Tensor"])
    for result, wanted in zip(compiled(*args), eager(Call(function), args), strict=True):
        torch.testing.assert_close(result, wanted, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: torch.atan2(x, x), id="atan2"),
        pytest.param(lambda x: torch.fmod(x, 2.5), id="fmod"),
        pytest.param(lambda x: torch.remainder(x, 1.5), id="remainder"),
        pytest.param(lambda x: torch.div(x, 1.5, rounding_mode="floor"), id="floor division"),
    ],
)
def test_a_jump_is_not_interpolated(function: Function) -> None:
    rows = torch.tensor([0.0, 0.02, 1.0])[:, None, None]
    quantized, x = _quantized(lambda x: function((x * rows).var(-1)), _SHAPES["rows"], torch.int8)
    compiled = compile_module(Call(quantized), (x,), specification="TOSA-1.0+INT+int16")
    (result,), (wanted,) = compiled(x), eager(Call(quantized), (x,))
    assert int((result.to(torch.int64) - wanted.to(torch.int64)).abs().max()) <= 1
