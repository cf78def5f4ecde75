# SPDX-License-Identifier: Apache-2.0
"""Functions of images: their operations, and reasons for calls that are not delegated."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.backends.xnnpack.testing.grid import graph_of, rejected, run_case
from delegatec.backends.xnnpack.testing.operators.case import Case
from delegatec.backends.xnnpack.testing.operators.images import X
from delegatec.delegation.protocol.parts import join


def test_activations_are_limits() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = f.relu6(self.a(x))
            y = self.b(x)
            return torch.cat([f.max_pool2d(f.hardtanh(y), 2), f.max_pool2d(y, 2).clamp(min=0.5)], 1) + 1

    compiled = run_case(
        Case(
            Model(),
            (X,),
            "Transpose Convolution Convolution Clamp MaxPooling MaxPooling Concatenate2 Add Transpose",
        )
    )
    limits = [
        node.limits and (node.limits.least, node.limits.most) for node in graph_of(compiled.blobs()[0]).nodes
    ]
    unlimited = None
    assert limits[1:6] == [(0, 6), unlimited, (-1, 1), unlimited, (0.5, float("inf"))]


def test_weights_are_written_in_another_order_without_a_copy() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(8, 6, 3), nn.Conv2d(6, 6, 3, groups=6)

        def forward(self, x: torch.Tensor) -> Any:
            return self.b(self.a(x))

    model = Model()
    (delegate,) = run_case(Case(model, (X,))).delegates
    stored = [join([each.data]) for each in delegate.named_data.values()]
    for wanted in (model.a.weight.permute(0, 2, 3, 1), model.b.weight.permute(1, 2, 3, 0)):
        assert wanted.detach().contiguous().numpy().tobytes() in stored


def test_reasons() -> None:
    class Computed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return f.conv2d(x, x[:, :, :3, :3])

    assert "weight is not constant" in rejected(Computed(), (X,))[-1][2]
    assert "windows that do not overlap" in rejected(nn.MaxPool2d(3, 2, return_indices=True), (X,))[0][2]


def test_sizes_that_vary() -> None:
    sizes = {
        0: Dim("batch", min=1, max=9),
        2: 4 * Dim("height", min=1, max=16),
        3: 4 * Dim("width", min=1, max=16),
    }
    layers = nn.Conv2d(8, 4, 3, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 1, 1)
    expected = "Transpose Convolution MaxPooling ConstantPad AveragePooling Transpose"
    run_case(Case(nn.Sequential(*layers), (torch.randn(2, 8, 8, 12),), expected, (sizes,)))
