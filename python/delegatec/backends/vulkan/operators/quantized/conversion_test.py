# SPDX-License-Identifier: Apache-2.0
"""Quantized activations outside of fused operators, in the reference executor, compared with eager mode."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.operators.quantized.testing import INT4, INT8, Layer, dq, q, quantized_values
from delegatec.backends.vulkan.testing import compile_module, run_case
from delegatec.backends.vulkan.testing.grid import floats
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import quantized

X: Final = floats(2, 3, 4, 8).clamp(-3, 3)
QUANTIZED: Final = "quantize_per_tensor dequantize_per_tensor"


def _int4(x: Tensor) -> Tensor:
    result = quantized.quantize_per_tensor(x, 0.5, 1, *INT4)
    return quantized.dequantize_per_tensor(result, 0.5, 1, *INT4)  # type: ignore[no-any-return]


def _dynamic(kind: str, block: list[int], keepdim: bool = False) -> Any:
    def function(x: Tensor) -> Tensor:
        scale, zero = AFFINE.choose_qparams_affine(x, kind, block, torch.int8, keepdim=keepdim)
        result = AFFINE.quantize_affine(x, block, scale, zero, torch.int8)
        return AFFINE.dequantize_affine(result, block, scale, zero, torch.int8)  # type: ignore[no-any-return]

    return function


CASES: Final[dict[str, tuple[Any, str]]] = {
    "a pair": (lambda x: dq(q(x)), QUANTIZED),
    "a vector": (lambda x: dq(q(x.view(-1))), f"view_copy {QUANTIZED}"),
    "another scale": (lambda x: dq(q(x), 0.125, -1), QUANTIZED),
    "a part of the range": (_int4, ""),
    "moved": (lambda x: dq(q(x).view(6, 32).permute(1, 0)), ""),
    "concatenated": (lambda x: dq(torch.cat([q(x), q(x + 1)], 1)), ""),
    "padded": (lambda x: dq(functional.pad(q(x), (1, 2))), ""),
    "of one row": (lambda x: dq(q(x).select(1, 2)), ""),
    "expanded": (lambda x: dq(q(x)[:1].expand(3, -1, -1, -1)), ""),
    "integers": (lambda x: q(x).to(torch.int32) + 1, ""),
    "asymmetric": (_dynamic("ASYMMETRIC", [1, 1, 1, 8]), ""),
    "symmetric": (_dynamic("SYMMETRIC", [1, 1, 1, 8], True), ""),
    "blocks": (_dynamic("ASYMMETRIC", [1, 3, 4, 4]), ""),
}


@pytest.mark.parametrize("storage", ["texture", "buffer"])
@pytest.mark.parametrize("name", CASES)
def test_conversions(name: str, storage: str) -> None:
    function, expected = CASES[name]
    run_case(function, (X,), expected, storage=storage)


def test_float16() -> None:
    """Values that float16 represents become the same quantized values."""
    x = (X * 8).round() / 8
    run_case(lambda x: dq(q(x)), (x,), "", precision="fp16")
    run_case(lambda x: dq(q(x * 2)), (x,), "", precision="fp16")


def test_values_of_32_bits_are_floats() -> None:
    bias = torch.arange(-4, 4, dtype=torch.int32)

    def function(layer: Any, x: Tensor) -> Tensor:
        bias: Tensor = quantized.dequantize_per_tensor(layer.bias, 0.25, 0, -(2**31), 2**31 - 1, torch.int32)
        return x + bias

    run_case(Layer(function, bias=bias), (X,), "prepack add.Tensor")

    def affine(layer: Any, x: Tensor) -> Tensor:
        bias: Tensor = AFFINE.dequantize_affine(layer.bias, [8], torch.tensor([0.25]), None, torch.int32)
        return x + bias

    run_case(Layer(affine, bias=bias), (X,), "prepack add.Tensor")


INTEGERS: Final = quantized_values(3, 4)


@pytest.mark.parametrize(
    ("function", "x", "left"),
    [
        (q, X, ["quantize_per_tensor"]),
        (dq, INTEGERS, ["dequantize_per_tensor"]),
        (lambda x: dq(torch.atan2(q(x), q(x)).to(torch.int8)), X, None),
        (lambda x: dq(q(x.view(2, 3, 2, 2, 8))), X, ["view", "quantize_per_tensor", "dequantize_per_tensor"]),
    ],
)
def test_quantized_values_stay_inside(function: Any, x: Tensor, left: list[str] | None) -> None:
    """The runtime copies no int8 to or from the caller."""
    compiled = compile_module(Call(function), (x,))
    for module in compiled.delegates:
        values = [node.meta["val"] for node in module.original.program.graph.nodes if "val" in node.meta]
        assert values
    operators = [each.operator.split(".")[1] for each in compiled.report.rejections]
    assert left is None or operators == left, compiled.report.rejections


def test_a_weight_is_dequantized_next_to_its_product() -> None:
    """Not in the delegate before the call that stays outside."""

    def function(layer: Any, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel(layer.weight, layer.scale, None, 0, *INT8)
        return functional.linear(torch.special.bessel_j0(x + 1), weight)

    layer = Layer(function, weight=quantized_values(8, 8), scale=torch.ones(8) / 64)
    compiled = compile_module(layer, (X,))
    sizes = [len([*module.original.program.user_inputs()]) for module in compiled.delegates]
    assert sizes == [1, 1]
