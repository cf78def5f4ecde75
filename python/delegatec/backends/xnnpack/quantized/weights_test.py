# SPDX-License-Identifier: Apache-2.0
"""Weights and biases in the runtime's forms, and the packing of four bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.building.packing import OffsetInt4Bytes
from delegatec.backends.xnnpack.quantized.testing import Layer
from delegatec.backends.xnnpack.quantized.weights import has_form, layer_of, quantized_bias
from delegatec.edge.quantization.layer import QuantizedLayer
from delegatec.edge.quantization.operators import DEQUANTIZE_CONSTANTS
from delegatec.edge.testing import edge


def found(layer: Layer) -> QuantizedLayer | None:
    program = edge(layer, torch.randn(2, layer.values.shape[1]), preserve=PRESERVED)
    (node,) = (each for each in program.graph.nodes if each.target is LINEAR)
    return layer_of(node, lambda each: program.constants.get(each.name))


LINEAR = torch.ops.aten.linear.default
PRESERVED = [LINEAR, *DEQUANTIZE_CONSTANTS]


def layer(bits: int, group: int = 0, zeros: int = 0) -> Layer:
    made = Layer(lambda own, x: f.linear(x, own.weight()), (12, 64), bits, group)
    made.zeros += zeros
    return made


def test_a_weight() -> None:
    made = layer(8)
    linear = found(made)
    assert linear is not None and (linear.group_size, linear.weight.is_int4) == (0, False)
    assert torch.equal(linear.weight.values, made.values) and torch.equal(linear.scales, made.scales)
    made = layer(4, group=32)
    linear = found(made)
    assert linear is not None and (linear.group_size, linear.weight.is_int4) == (32, True)
    assert torch.equal(linear.scales, made.scales)


def test_one_group_is_no_group() -> None:
    linear = found(layer(4, group=64))
    assert linear is not None and (linear.group_size, tuple(linear.scales.shape)) == (0, (12,))


def test_what_the_runtime_has_no_form_for() -> None:
    assert found(layer(8, zeros=1)) is None
    assert found(layer(4, group=16)) is None
    linear = found(layer(8))
    assert linear is not None and not has_form(linear.weight, axis=1)
    made = layer(8)
    made.scales[3] = 0.0
    assert found(made) is None


def test_a_bias_is_in_units_of_the_products() -> None:
    bias = quantized_bias(torch.tensor([1.0, -1.0]), torch.tensor([0.5, 0.25]))
    assert bias is not None and bias.tolist() == [2, -4] and bias.dtype == torch.int32
    assert quantized_bias(torch.tensor([1.0, -1.0]), torch.tensor([0.5, 1e-12])) is None


@pytest.mark.parametrize("columns", [6, 7])
def test_four_bits(columns: int) -> None:
    quantized_values = torch.arange(3 * columns).view(3, columns) % 16 - 8
    data = OffsetInt4Bytes(quantized_values.to(torch.int8))
    stored = bytes(data[0 : len(data)])
    assert len(stored) == len(data) == 3 * ((columns + 1) // 2)
    assert b"".join(bytes(data[start : start + 2]) for start in range(0, len(data), 2)) == stored

    def unpacked(packed: Tensor) -> Tensor:
        return torch.stack([packed & 15, packed >> 4], -1).flatten(1)[:, :columns].to(torch.int8) - 8

    assert torch.equal(unpacked(torch.tensor(list(stored), dtype=torch.uint8).view(3, -1)), quantized_values)
