# SPDX-License-Identifier: Apache-2.0
"""The libraries of networks for images: torchvision's operators without its kernels, and a model of timm."""

from __future__ import annotations

import importlib
from itertools import combinations
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

import delegatec


def _boxes(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator) * 6
    sizes = torch.rand(count, 2, generator=generator) * 4
    return torch.cat([corners, corners + sizes], 1), torch.rand(count, generator=generator)


def _share(one: list[float], other: list[float]) -> float:
    """Returns the intersection of two boxes over their union, in Python's arithmetic."""
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return width * height / (areas - width * height)


@pytest.mark.parametrize("threshold", [0.1, 0.4])
def test_nms(threshold: float) -> None:
    boxes, scores = _boxes(40)
    found = torchvision.ops.nms(boxes, scores, threshold).tolist()
    assert 5 < len(found) < 40
    assert scores[found].tolist() == sorted(scores[found].tolist(), reverse=True)
    rows = boxes.tolist()
    assert all(_share(rows[a], rows[b]) <= threshold for a, b in combinations(found, 2))
    for removed in set(range(40)) - set(found):
        stronger = [each for each in found if scores[each] > scores[removed]]
        assert any(_share(rows[removed], rows[each]) > threshold for each in stronger)


def test_nms_of_no_boxes_and_of_points() -> None:
    assert torchvision.ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []
    # 0 / 0 is not above the threshold
    assert torchvision.ops.nms(torch.zeros(2, 4), torch.tensor([0.1, 0.2]), 0.5).tolist() == [1, 0]
    # of classes that do not compete
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 2, 2]])
    classes = torch.tensor([0, 1, 0])
    found = torchvision.ops.batched_nms(boxes, torch.tensor([0.3, 0.2, 0.9]), classes, 0.5)
    assert found.tolist() == [2, 1]


def test_roi_align() -> None:
    image = torch.arange(64.0).reshape(1, 1, 8, 8)
    found = torchvision.ops.roi_align(image, [torch.tensor([[1.0, 2, 5, 6]])], 2, 1.0, 2, aligned=True)
    # The values are linear in x and y: each is that of the middle of its quarter; pixels' middles are at 0.5.
    expected = torch.tensor([[8 * y + x for x in (1.5, 3.5)] for y in (2.5, 4.5)])
    torch.testing.assert_close(found[0, 0], expected)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 3])
def test_roi_align_of_boxes_inside_of_images(samples: int, aligned: bool) -> None:
    """Next to the formula that torchvision compiles for devices without kernels, not compiled."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 9, 11, generator=generator)
    corners = torch.rand(12, 2, generator=generator) * 5
    sizes = torch.rand(12, 2, generator=generator) * 5
    boxes = torch.cat([torch.arange(12)[:, None] % 2, corners, corners + sizes], 1)
    found = torchvision.ops.roi_align(images, boxes, (3, 2), 0.75, samples, aligned)
    expected = importlib.import_module("torchvision.ops.roi_align")._roi_align.__wrapped__(
        images, boxes, 0.75, 3, 2, samples, aligned
    )
    assert expected.abs().amax() > 0.5
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_roi_align_of_boxes_outside_of_images() -> None:
    """Samples more than a pixel outside are 0, as in the kernels; the nearest pixel counts up to there."""
    image = torch.ones(1, 1, 4, 4)
    boxes = torch.tensor([[-9.0, 0, -5, 4], [-0.9, 0, 1.1, 2], [-2.0, 0, 0, 4]])
    found = torchvision.ops.roi_align(image, [boxes], 1, 1.0, 4)
    assert found.flatten().tolist() == [0, 1, 0.5]
    assert torchvision.ops.roi_align(image, [boxes[:0]], 2).shape == (0, 1, 2, 2)


def test_an_operator_without_a_kernel() -> None:
    with pytest.raises(NotImplementedError, match="torchvision::roi_pool has no kernel in this build"):
        torchvision.ops.roi_pool(torch.rand(1, 3, 8, 8), [torch.tensor([[0.0, 0, 4, 4]])], 2)


class Network(nn.Module):
    """A network of timm with a block of torchvision."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torchvision.ops.Conv2dNormActivation(3, 3)
        self.network = timm.create_model("mobilenetv3_small_050", pretrained=False, num_classes=10)

    def forward(self, image: Tensor) -> Tensor:
        result = self.network(self.features(image))
        assert isinstance(result, Tensor)
        return result


def test_a_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = delegatec.Model(Network().eval(), (torch.rand(1, 3, 64, 64),))
    program = delegatec.lower(delegatec.export(model), "xnnpack", require_full_delegation=True)
    program.save(tmp_path / "net.pte")
    result = delegatec.verify(tmp_path / "net.pte", model)
    assert result.passed, result.table()
