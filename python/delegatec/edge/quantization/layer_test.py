# SPDX-License-Identifier: Apache-2.0
"""Layers with quantized weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.edge.quantization.layer import QuantizedLayer, quantized_layer
from delegatec.edge.quantization.operators import QUANTIZATIONS, quantized
from delegatec.edge.quantization.testing import Constant, per_channel, per_group
from delegatec.edge.testing import edge

LAYERS: Final = [torch.ops.aten.linear.default, torch.ops.aten.convolution.default]


class Layer(nn.Module):
    weight: Constant
    integers: Tensor
    floats: Tensor

    def __init__(self, call: Callable[[Layer, Tensor], Tensor], weight: Constant) -> None:
        super().__init__()
        self.weight, self.call = weight, call
        self.register_buffer("integers", torch.arange(6, dtype=torch.int32))
        self.register_buffer("floats", torch.arange(6.0))

    def bias(self) -> Tensor:
        found: Tensor = quantized.dequantize_per_tensor(
            self.integers, 0.5, 0, -(2**31), 2**31 - 1, torch.int32
        )
        return found

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def layer_in(module: Layer, x: Tensor) -> QuantizedLayer | None:
    program = edge(module, x, preserve=[*QUANTIZATIONS, *LAYERS], passes=())
    (node,) = (each for each in program.graph.nodes if each.target in LAYERS)
    return quantized_layer(node, lambda each: program.constants.get(each.name))


ROWS: Final = Constant(per_channel(0), (6, 8), (6,), has_zeros=False)
GROUPS: Final = Constant(per_group(4), (6, 8), (6, 2), has_zeros=False)
KERNEL: Final = Constant(per_channel(1), (4, 3, 2, 2), (3,), has_zeros=False)


def test_a_linear_layer() -> None:
    def call(own: Layer, x: Tensor) -> Tensor:
        return functional.linear(x, own.weight.call(own.weight), own.bias())

    found = layer_in(Layer(call, ROWS), torch.randn(2, 8))
    assert found is not None and (found.axis, found.group_size, len(found.constants)) == (0, 0, 2)
    assert torch.equal(found.scales, ROWS.scales) and not found.computes_bias
    assert found.bias is not None and found.bias.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    found = layer_in(Layer(call, GROUPS), torch.randn(2, 8))
    assert found is not None and found.group_size == 4 and torch.equal(found.scales, GROUPS.scales)


def test_a_transposed_convolution_repeats_the_scales_of_its_channels() -> None:
    def call(own: Layer, x: Tensor) -> Tensor:
        return functional.conv_transpose2d(x, own.weight.call(own.weight), own.floats, groups=2)

    found = layer_in(Layer(call, KERNEL), torch.randn(1, 4, 5, 5))
    assert found is not None and (found.axis, found.repeats, len(found.constants)) == (1, 2, 1)
    assert torch.equal(found.scales, KERNEL.scales.repeat(2))
    assert found.bias is not None and torch.equal(found.bias, torch.arange(6.0))


def test_a_bias_that_is_computed() -> None:
    def call(own: Layer, x: Tensor) -> Tensor:
        return functional.linear(x, own.weight.call(own.weight), x[0, :6])

    found = layer_in(Layer(call, ROWS), torch.randn(2, 8))
    assert found is not None and found.bias is None and found.computes_bias


def test_a_layer_in_floating_point_is_not_quantized() -> None:
    def call(own: Layer, x: Any) -> Tensor:
        return functional.linear(x, torch.ones(6, 8), own.floats)

    assert layer_in(Layer(call, ROWS), torch.randn(2, 8)) is None
