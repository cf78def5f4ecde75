# SPDX-License-Identifier: Apache-2.0
"""Scales and zero points of quantized values."""

from __future__ import annotations

import torch
from torch.ao.quantization import fx  # noqa: F401 - registers the operators of quantized values
from torch.export import export

from delegatec.report.quantization import quantized_values

Q = torch.ops.quantized_decomposed


class Net(torch.nn.Module):
    """A layer with a scale per channel between quantized activations, as PT2E writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("quantized", torch.ones(2, 4, dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([0.25, 0.5]))
        self.register_buffer("zeros", torch.tensor([0, 3]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = (0.125, -5, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *first), *first)
        channels = (self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.nn.functional.linear(x, Q.dequantize_per_channel(self.quantized, *channels))
        second = (2.0, 0, -32768, 32767, torch.int16)
        y = Q.dequantize_per_tensor(Q.quantize_per_tensor(y, *second), *second)
        other: torch.Tensor = Q.dequantize_per_tensor(Q.quantize_per_tensor(y, *second), *second)
        return other


def test_each_value_once_with_the_range_of_its_scales() -> None:
    found = quantized_values(export(Net().eval(), (torch.rand(1, 4),)))
    rows = [(v.name, v.kind, v.dtype, v.scales, v.zero_points, v.groups) for v in found]
    assert rows[:3] == [
        ("x", "activation", "int8", (0.125, 0.125), (-5, -5), 1),
        ("quantized", "weight", "int8", (0.25, 0.5), (0, 3), 2),
        ("linear", "activation", "int16", (2.0, 2.0), (0, 0), 1),
    ]
    assert len(rows) == 4
    assert found[2].location is not None and found[2].location.text.startswith("y = Q.dequantize")


def test_scales_that_the_program_computes() -> None:
    class Dynamic(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale, zero = Q.choose_qparams(x, -128, 127, 1e-6, torch.int8)
            y: torch.Tensor = Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            return y

    (value,) = quantized_values(export(Dynamic().eval(), (torch.rand(4),)))
    assert (value.scales, value.zero_points, value.groups) == ((), (), 0)


def test_a_model_in_floating_point_has_none() -> None:
    assert quantized_values(export(torch.nn.Linear(2, 2), (torch.rand(1, 2),))) == ()
