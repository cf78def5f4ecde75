# SPDX-License-Identifier: Apache-2.0
"""The layout of values in TOSA graphs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f

from delegatec.backends.arm.testing import graph_of, operators, run_case


class _Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2), nn.Conv2d(4, 4, 3, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = f.relu6(self.a(f.pad(x, (0, 1, 0, 1))))
        return f.relu6(self.b(f.pad(x, (1, 1, 1, 0))))


def test_padding_and_permutations_disappear() -> None:
    torch.manual_seed(0)
    compiled = run_case(_Padded(), (torch.randn(1, 3, 8, 8),))
    found = operators(compiled)
    assert found[:2] == ["TRANSPOSE", "CONV2D"] and found[-1] == "TRANSPOSE"
    assert found.count("TRANSPOSE") == 2 and "PAD" not in found


def test_one_channel_needs_no_permutation() -> None:
    torch.manual_seed(0)
    run_case(nn.Conv2d(1, 4, 3), (torch.randn(1, 1, 8, 8),), "RESHAPE CONV2D TRANSPOSE")


class _Images(nn.Module):
    """Returns images, and the mean of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, groups=4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.b(f.pad(f.relu6(self.a(x)), (1, 1, 1, 1)))
        return f.interpolate(x, scale_factor=2.0), x.mean((2, 3))


def test_channels_last_images_cross_as_they_are() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    compiled = run_case(_Images(), (image,))
    assert not {"TRANSPOSE", "PAD"} & set(operators(compiled))
    assert operators(run_case(_Images(), (image.contiguous(),))).count("TRANSPOSE") == 2
    graph = graph_of(compiled)
    assert [tuple(value.shape) for value in graph.inputs] == [(2, 8, 8, 3)]
    assert {tuple(value.shape) for value in graph.outputs} == {(2, 8, 8, 4), (2, 4)}


def test_a_channels_last_image_whose_elements_are_a_row() -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    run_case(lambda x: x.flatten(1) + 1, (image,), "TRANSPOSE RESHAPE ADD")


def test_int48_keeps_its_dimensions() -> None:
    """TOSA has no RESHAPE of it: that of a volume follows its RESCALE."""
    int16 = (0, -32768, 32767, torch.int16)
    ops = torch.ops.quantized_decomposed

    class Volume(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.ones(2, 2, 2, 3, 3, dtype=torch.int8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = ops.dequantize_per_tensor(self.weight, 0.01, 0, -127, 127, torch.int8)
            y = f.conv3d(ops.dequantize_per_tensor(x, 0.001, *int16), weight, padding=2)
            result: torch.Tensor = ops.quantize_per_tensor(y, 0.002, *int16)
            return result

    x = torch.arange(16, dtype=torch.int16).view(1, 2, 2, 2, 2)
    compiled = run_case(Volume(), (x,), specification="TOSA-1.0+INT+int16")
    assert "CONV3D" in operators(compiled)
