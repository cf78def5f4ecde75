# SPDX-License-Identifier: Apache-2.0
"""Functions of images on XNNPACK in the stock runtime, compared with eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.testing import qdq
from delegatec.backends.xnnpack.testing.grid import operations
from tests.oracle.xnnpack import run_in_runtime


@pytest.mark.parametrize("layer", [nn.Conv2d(8, 6, 3), nn.Conv2d(8, 6, 1), nn.ConvTranspose2d(8, 6, 3)])
def test_models_in_float16(layer: nn.Module) -> None:
    image = torch.randn(2, 8, 5, 6, generator=torch.Generator().manual_seed(0)).half()
    report = run_in_runtime(copy.deepcopy(layer).half(), [(image,)], rtol=4e-3, atol=4e-3)
    assert (len(report.delegates), report.rejections) == (1, [])


def test_windows_that_follow_from_sizes_that_vary() -> None:
    model = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    images = [torch.randn(2, 3, size, 6) for size in (4, 7, 2)]
    report = run_in_runtime(model, [(image,) for image in images], ({2: Dim("height", min=1, max=9)},))
    assert [rejection.rule for rejection in report.rejections] == ["shape"]


def test_sizes_that_vary() -> None:
    torch.manual_seed(0)
    sizes = {
        0: Dim("batch", min=1, max=9),
        2: 4 * Dim("height", min=1, max=16),
        3: 4 * Dim("width", min=1, max=16),
    }
    model = nn.Sequential(
        *(nn.Conv2d(8, 4, 3, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 1, 1)),
        *(nn.ConvTranspose2d(4, 3, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    shapes = ((2, 8, 8, 12), (1, 8, 64, 4), (9, 8, 4, 32), (3, 8, 12, 8))
    report = run_in_runtime(model, [(torch.randn(shape),) for shape in shapes], (sizes,))
    assert (len(report.delegates), report.rejections) == (1, [])


def test_norms_before_layers_cost_nothing() -> None:
    """As in networks that recognize faces. Each norm was a product and a sum."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3, 2), nn.GELU(), nn.BatchNorm2d(8), nn.Conv2d(8, 6, 1)),
        *(nn.GELU(), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.BatchNorm2d(6)),
        *(nn.Dropout(), nn.Flatten(), nn.Linear(6 * 9, 5)),
    )
    for norm in model:
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
            norm.weight.data.uniform_(0.5, 2), norm.bias.data.normal_()
    report = run_in_runtime(model, [(torch.randn(1, 3, 11, 11),)], rtol=2e-5, atol=1e-5)
    assert (len(report.delegates), report.rejections) == (1, [])
    found = operations(report.delegates[0].module.blob_bytes())
    assert not {"Multiply", "Add"}.intersection(found)


def test_a_size_that_follows_from_two_others() -> None:
    class Computed(nn.Module):
        def forward(self, image: Tensor, filter: Tensor) -> Tensor:
            return f.conv_transpose2d(f.conv_transpose2d(image, filter, stride=2), weight, stride=2).relu()

    torch.manual_seed(0)
    weight = torch.randn(2, 1, 3, 2)
    shapes = [((3, 4), 2), ((9, 2), 5), ((2, 9), 3)]
    calls = [(torch.randn(2, 3, *sizes), torch.randn(3, 2, 2, columns)) for sizes, columns in shapes]
    height, width, columns = (Dim(name, min=2, max=9) for name in ("height", "width", "columns"))
    report = run_in_runtime(Computed(), calls, ({2: height, 3: width}, {3: columns}))
    assert (len(report.delegates), report.nodes_left) == (1, 1)


@pytest.mark.parametrize("corners", [True, False])
def test_images_of_sizes_that_vary_are_resized_to_one(corners: bool) -> None:
    torch.manual_seed(0)
    sizes = {0: Dim("batch", min=1, max=9), 2: Dim("height", min=2, max=16), 3: Dim("width", min=2, max=16)}
    model = nn.Sequential(nn.Upsample((12, 10), mode="bilinear", align_corners=corners), nn.ReLU())
    shapes = ((2, 3, 8, 9), (1, 3, 16, 2), (9, 3, 12, 10), (3, 3, 5, 16))
    report = run_in_runtime(model, [(torch.randn(shape),) for shape in shapes], (sizes,))
    assert (len(report.delegates), report.rejections) == (1, [])


def test_channels_last_images_cross_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 1))
    images = [torch.randn(2, 3, 9, 11).to(memory_format=torch.channels_last) for _ in range(2)]
    report = run_in_runtime(model, [(image,) for image in images])
    assert (len(report.delegates), report.rejections) == (1, [])


class _Means(nn.Module):
    """Two layers around the mean of images, whose values may be quantized."""

    def __init__(self, is_quantized: bool) -> None:
        super().__init__()
        self.images, self.head = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 1)
        self.is_quantized = is_quantized

    def forward(self, x: Tensor) -> Tensor:
        x = self._layer(self.images, self._rounded(x))
        return self._layer(self.head, self._rounded(x.mean((2, 3), keepdim=True)))

    def _rounded(self, x: Tensor) -> Tensor:
        return qdq(x, 0.05, 3) if self.is_quantized else x

    def _layer(self, layer: nn.Conv2d, x: Tensor) -> Tensor:
        weight = qdq(layer.weight, 0.01, 0) if self.is_quantized else layer.weight
        return self._rounded(f.conv2d(x, weight, layer.bias))


@pytest.mark.parametrize("is_quantized", [True, False])
def test_means_of_a_batch_that_grows(is_quantized: bool) -> None:
    """The runtime does not enlarge the buffer in which it sums quantized values, or float16."""
    torch.manual_seed(0)
    dtype = torch.float32 if is_quantized else torch.float16
    calls = [(torch.randn(batch, 3, 10, 10, dtype=dtype),) for batch in (2, 1, 64)]
    model = _Means(is_quantized).to(dtype)
    tolerance = 0.051 if is_quantized else 4e-3  # one quantization step
    report = run_in_runtime(model, calls, ({0: Dim("batch", min=1, max=64)},), rtol=4e-3, atol=tolerance)
    (delegate,) = report.delegates
    found = operations(delegate.module.blob_bytes())
    pool = found.index("GlobalAveragePooling")
    assert found[pool - 1] == found[pool + 1] == "Convert"
