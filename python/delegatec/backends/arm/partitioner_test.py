# SPDX-License-Identifier: Apache-2.0
"""Which calls of quantized programs are delegated, and the reasons for the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from delegatec.backends.arm.backend import TOSA
from delegatec.backends.arm.testing import compile_module, operators
from delegatec.backends.common.testing import Call, Compiled, compile_program, floats
from delegatec.edge import to_edge
from delegatec.edge.quantization.operators import quantized

INT = "TOSA-1.0+INT"


def quantize(x: torch.Tensor, scale: float = 0.01) -> Any:
    return quantized.quantize_per_tensor(x, scale, 3, -128, 127, torch.int8)


def dequantize(x: torch.Tensor, scale: float = 0.01) -> Any:
    return quantized.dequantize_per_tensor(x, scale, 3, -128, 127, torch.int8)


def through(x: torch.Tensor, scale: float = 0.01) -> Any:
    return dequantize(quantize(x, scale), scale)


def lowered(function: Any, *args: torch.Tensor, specification: str = INT) -> Compiled:
    """Lowers a function, and checks that its results are within one quantization step of eager mode."""
    compiled = compile_module(Call(function), args, specification=specification)
    for result, wanted in zip(compiled(*args), [function(*args)], strict=True):
        assert (result - wanted).abs().max() <= 0.0101
    return compiled


def test_a_model_is_one_delegate() -> None:
    """Its inputs are quantized outside, its outputs dequantized."""

    def function(x: torch.Tensor) -> Any:
        y = through(x)
        return through(torch.relu(through(y.sigmoid() + y)))

    compiled = lowered(function, floats(2, 3))
    assert len(compiled.delegates) == 1
    assert [rule for _, rule, _ in compiled.left] == ["quantized", "quantized"]
    assert compiled.left[0][2] == "args_0 is floating point"


def test_floating_point_between_quantized_values_has_a_reason() -> None:
    """The region of an unsupported operator is not delegated; others are."""

    def function(x: torch.Tensor) -> Any:
        y = through(torch.relu(through(x)), 0.03)
        z = quantize(torch.topk(y, 2).values, 0.03)
        return through(dequantize(z, 0.03) * 2, 0.01)

    compiled = lowered(function, floats(2, 3))
    assert len(compiled.delegates) == 2
    reasons = [message for operator, _, message in compiled.left if "topk" in operator]
    assert reasons == ["there is no integer arithmetic for this operator"]


def test_both_profiles() -> None:
    """With the profile FP, borders are delegated, too."""

    def function(x: torch.Tensor) -> Any:
        return through(through(x).sigmoid()).exp()

    compiled = lowered(function, floats(2, 3), specification="TOSA-1.0+INT+FP")
    assert (len(compiled.delegates), compiled.left) == (1, [])
    assert "TABLE" in operators(compiled) and "EXP" in operators(compiled)


def test_floating_point_alone() -> None:
    """Without quantization, there is a reason for each call."""
    compiled = compile_module(Call(lambda x: x.exp() + 1), (floats(3),), specification=INT)
    assert compiled.delegates == []
    assert {message for _, _, message in compiled.left} == {"it is floating point, without quantization"}


def test_a_quantized_constant_of_a_rejected_call() -> None:
    """A result of bool is not one of Ethos-U55; a delegate may contain only the constant."""

    def function(x: torch.Tensor) -> Any:
        return through(x) >= through(torch.full([1], -0.1))

    x = floats(2, 3)
    compiled = compile_module(Call(function), (x,), specification="TOSA-1.0+INT+u55")
    left = {operator: message for operator, _, message in compiled.left}
    assert left["aten.ge.Tensor"] == "the result ge is of bool, which the target lacks"
    assert torch.equal(compiled(x)[0], function(x))


def test_values_of_bool_connect_units_of_small_npus() -> None:
    """Calls that select by a bool from outside the region, or return a bool from it, are not delegated."""

    def function(x: torch.Tensor, mask: torch.Tensor) -> Any:
        is_positive = dequantize(x) > 0.1
        chosen = quantize(torch.where(is_positive, dequantize(quantize(dequantize(x).sigmoid())), 0.0))
        masked = quantize(torch.where(mask, dequantize(quantize(dequantize(x).tanh())), 0.0))
        return chosen, masked, is_positive

    x, mask = torch.arange(-8, 8, dtype=torch.int8), torch.arange(16) % 3 == 0
    compiled = compile_module(Call(function), (x, mask), specification="TOSA-1.0+INT+u55")
    assert {name for name, _, _ in compiled.left if "where" in name or "gt" in name} == {
        "aten.gt.Scalar",
        "aten.where.self",
    }
    assert set(operators(compiled)) == {"TABLE"}
    for result, wanted in zip(compiled(x, mask), function(x, mask), strict=True):
        assert torch.equal(result, wanted)


def test_a_large_mask_that_follows_from_constants() -> None:
    """It is not folded before, and needs no comparison on Ethos-U55."""

    def function(x: torch.Tensor) -> Any:
        position = torch.arange(300)
        is_causal = position.unsqueeze(1) >= position
        return quantize(torch.where(is_causal, dequantize(x), -1e9))

    x = torch.arange(300, dtype=torch.int16).to(torch.int8).expand(300, 300).contiguous()
    compiled = compile_module(Call(function), (x,), specification="TOSA-1.0+INT+u55")
    assert compiled.left == []
    assert sorted(operators(compiled)) == ["ADD", "RESCALE", "RESCALE", "RESCALE"]
    assert torch.equal(compiled(x)[0], function(x))


def test_scalars() -> None:
    """0-d values and constants are quantized like others."""

    def function(x: torch.Tensor) -> Any:
        bounded = torch.clamp(through(x), max=float("inf"))
        return through(through(torch.where(x > 0, bounded, through(torch.tensor(-0.5)))).sum(), 0.1)

    (result,) = (compiled := lowered(function, floats(2, 3)))(floats(2, 3))
    assert result.shape == () and len(compiled.delegates) > 0


def test_empty_values_are_not_delegated() -> None:
    """TOSA has no tensors without elements. They are constants: nothing is left for the CPU, either."""
    compiled = compile_module(Call(lambda x: through(through(x) * 2)), (torch.ones(0, 8),), specification=INT)
    assert compiled.delegates == [] and compiled.left == []


def test_values_of_dynamic_sizes_are_not_delegated() -> None:
    """The conversion attempt keeps the sizes of the program."""

    def function(x: torch.Tensor) -> Any:
        y = through(x)
        return through(through(y.mean((2, 3), keepdim=True)) * y)

    x, size = floats(2, 3, 4, 4), torch.export.Dim("size", min=2, max=8)
    exported = torch.export.export(Call(function), (x,), dynamic_shapes=(((None, None, None, size),),))
    compiled = compile_program(
        "tosa", to_edge(exported, preserve=TOSA.preserved_operators()), specification=INT
    )
    assert compiled.delegates == []
    (message,) = {message for operator, _, message in compiled.left if "mul" in operator}
    assert "has a dynamic shape ['2', '3', '4', 's" in message
    for each in (x, floats(2, 3, 4, 7)):
        assert torch.equal(compiled(each)[0], function(each))


def test_weights_of_several_outputs_per_channel_are_constants_for_an_npu() -> None:
    """Also where a call is tried alone, without the bytes of its constants."""
    weight = torch.arange(-36, 36, dtype=torch.int8).reshape(8, 1, 3, 3)

    class Depthwise(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Buffer(weight)

        def forward(self, x: torch.Tensor) -> Any:
            return quantize(nn.functional.conv2d(dequantize(x), dequantize(self.weight), groups=4), 0.02)

    x = torch.zeros(1, 4, 8, 8, dtype=torch.int8)
    compiled = compile_module(Depthwise(), (x,), specification="TOSA-1.0+INT+u55")
    assert compiled.left == []
    assert "DEPTHWISE_CONV2D" in operators(compiled) and "RESHAPE" not in operators(compiled)
