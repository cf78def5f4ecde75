# SPDX-License-Identifier: Apache-2.0
"""Functions of images on XNNPACK in the stock runtime, compared with eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.oracle.xnnpack import run_in_runtime


@pytest.mark.parametrize("layer", [nn.Conv2d(8, 6, 3), nn.Conv2d(8, 6, 1), nn.ConvTranspose2d(8, 6, 3)])
def test_models_in_float16(layer: nn.Module) -> None:
    image = torch.randn(2, 8, 5, 6, generator=torch.Generator().manual_seed(0)).half()
    report = run_in_runtime(copy.deepcopy(layer).half(), [(image,)], rtol=4e-3, atol=4e-3)
    assert (len(report.delegates), report.rejections) == (1, [])


def test_sizes_that_vary() -> None:
    torch.manual_seed(0)
    sizes = {0: Dim("batch", max=9), 2: 4 * Dim("height", max=16), 3: 4 * Dim("width", max=16)}
    model = nn.Sequential(
        *(nn.Conv2d(8, 4, 3, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 1, 1)),
        *(nn.ConvTranspose2d(4, 3, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    shapes = ((2, 8, 8, 12), (1, 8, 64, 4), (9, 8, 4, 32), (3, 8, 12, 8))
    report = run_in_runtime(model, [(torch.randn(shape),) for shape in shapes], (sizes,))
    assert (len(report.delegates), report.rejections) == (1, [])


def test_channels_last_images_cross_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 1))
    images = [torch.randn(2, 3, 9, 11).to(memory_format=torch.channels_last) for _ in range(2)]
    report = run_in_runtime(model, [(image,) for image in images])
    assert (len(report.delegates), report.rejections) == (1, [])
