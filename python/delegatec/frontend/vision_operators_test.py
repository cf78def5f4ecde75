# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators, against loops over boxes, pixels and taps."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.vision_operators import OPERATORS, _batched_nms, _decode, _pasted_masks

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)


def _noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _boxes(count: int, size: float = 6.0) -> Tensor:
    low = _noise(count, 2, seed=1) * size - 1.0
    return torch.cat([low, low + _noise(count, 2, seed=2) * size], 1)


ROIS = torch.cat([torch.tensor([[0.0], [1.0]] * 4), _boxes(8)], 1)
IMAGES = _noise(2, 8, 7, 9)


def _nms(boxes: Tensor, scores: Tensor, threshold: float) -> list[int]:
    kept: list[int] = []
    for box in scores.argsort(descending=True, stable=True).tolist():
        if all(_overlap(boxes[box].tolist(), boxes[other].tolist()) <= threshold for other in kept):
            kept.append(box)
    return kept


def _overlap(one: list[float], other: list[float]) -> float:
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    sides = [max(0.0, min(one[2 + d], other[2 + d]) - max(one[d], other[d])) for d in (0, 1)]
    return sides[0] * sides[1] / (sum(areas) - sides[0] * sides[1])


def _between(channel: Tensor, y: float, x: float, beyond: float) -> float:
    """Returns a value between four pixels: up to `beyond` outside, that of the border, then zero."""
    height, width = channel.shape
    if beyond and not (-beyond <= y <= height and -beyond <= x <= width):
        return 0.0
    if beyond:
        y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    total = 0.0
    for row, column in product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= row < height and 0 <= column < width:
            total += (1 - abs(y - row)) * (1 - abs(x - column)) * channel[row, column].item()
    return total


def _align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, n: int, aligned: bool) -> Tensor:
    result = torch.zeros(len(rois), x.shape[1], height, width)
    for k, c, i, j in product(*map(range, result.shape)):
        image, left, top, right, bottom = rois[k].tolist()
        left, top, right, bottom = (edge * scale - 0.5 * aligned for edge in (left, top, right, bottom))
        sizes = [bottom - top, right - left]
        bins = [
            (s if aligned else max(s, 1.0)) / count for s, count in zip(sizes, (height, width), strict=True)
        ]
        points = [
            (top + (i + (a + 0.5) / n) * bins[0], left + (j + (b + 0.5) / n) * bins[1])
            for a, b in product(range(n), range(n))
        ]
        values = [_between(x[int(image), c], *point, 1.0) for point in points]
        result[k, c, i, j] = sum(values) / len(values)
    return result


def _pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> Tensor:
    result = torch.zeros(len(rois), x.shape[1], height, width)
    for k, i, j in product(range(len(rois)), range(height), range(width)):
        image, *edges = rois[k].tolist()
        left, top, right, bottom = (math.trunc(e * scale + math.copysign(0.5, e)) for e in edges)
        rows, columns = (
            slice(
                max(math.floor(at * size / count) + low, 0), max(math.ceil((at + 1) * size / count) + low, 0)
            )
            for at, size, count, low in (
                (i, max(bottom - top + 1, 1), height, top),
                (j, max(right - left + 1, 1), width, left),
            )
        )
        part = x[int(image), :, rows, columns]
        if part.numel():
            result[k, :, i, j] = part.amax((1, 2))
    return result


def test_boxes_that_overlap_with_better_ones_are_left_out() -> None:
    boxes, scores = _boxes(40), _noise(40, seed=3)
    scores[5] = scores[6]
    for threshold in (0.0, 0.1, 0.3, 0.9):
        assert OPERATORS["nms"](boxes, scores, threshold).tolist() == _nms(boxes, scores, threshold)
    same = boxes[:1].expand(4, 4)
    assert OPERATORS["nms"](same, torch.tensor([1.0, 3.0, 2.0, 3.0]), 0.5).tolist() == [1]


def test_boxes_of_several_classes() -> None:
    boxes, scores, classes = _boxes(30), _noise(30, seed=3), torch.arange(30) % 4
    expected = [
        int(where[kept])
        for where in (torch.where(classes == each)[0] for each in range(4))
        for kept in _nms(boxes[where], scores[where], 0.2)
    ]
    found = _batched_nms(boxes, scores, classes, 0.2).tolist()
    assert sorted(found) == sorted(expected)
    assert found == sorted(found, key=lambda box: -scores[box].item())


@pytest.mark.parametrize(("samples", "aligned"), [(2, True), (3, False), (1, True)])
def test_means_of_regions(samples: int, aligned: bool) -> None:
    arguments = (IMAGES, ROIS, 0.8, 3, 2, samples, aligned)
    torch.testing.assert_close(OPERATORS["roi_align"](*arguments), _align(*arguments))


def test_means_of_regions_of_one_channel_per_element() -> None:
    result, _ = OPERATORS["ps_roi_align"](IMAGES, ROIS, 0.8, 2, 2, 2)
    every = _align(IMAGES, ROIS, 0.8, 2, 2, 2, True)
    for c, i, j in product(range(2), range(2), range(2)):
        torch.testing.assert_close(result[:, c, i, j], every[:, (c * 2 + i) * 2 + j, i, j])


def test_maxima_of_regions() -> None:
    rois = torch.cat([ROIS, torch.tensor([[0.0, 20.0, 20.0, 30.0, 30.0]])])
    result, _ = OPERATORS["roi_pool"](IMAGES - 0.5, rois, 0.7, 3, 2)
    torch.testing.assert_close(result, _pool(IMAGES - 0.5, rois, 0.7, 3, 2))


@pytest.mark.parametrize("use_mask", [False, True])
def test_convolution_at_moved_positions(use_mask: bool) -> None:
    x, weight, bias = _noise(2, 4, 5, 6), _noise(6, 2, 3, 2, seed=1), _noise(6, seed=2)
    offset, mask = _noise(2, 24, 3, 4, seed=3) * 4 - 2, _noise(2, 12, 3, 4, seed=4)
    settings = (2, 1, 1, 1, 1, 3, 2, 2, use_mask)
    found = OPERATORS["deform_conv2d"](x, weight, offset, mask, bias, *settings)
    expected = bias.view(1, 6, 1, 1).repeat(2, 1, 3, 4)
    for n, o, c, i, j, row, column in product(*map(range, (2, 6, 2, 3, 2, 3, 4))):
        channel = o // 3 * 2 + c
        tap = (channel // 2 * 3 + i) * 2 + j
        y = row * 2 - 1 + i + offset[n, 2 * tap, row, column].item()
        point = column - 1 + j * 3 + offset[n, 2 * tap + 1, row, column].item()
        factor = mask[n, tap, row, column].item() if use_mask else 1.0
        value = _between(x[n, channel], y, point, 0.0) * factor
        expected[n, o, row, column] += value * weight[o, c, i, j]
    torch.testing.assert_close(found, expected)


@pytest.fixture(scope="module")
def torchvision() -> Iterator[None]:
    """Declares operators as torchvision does, without fake implementations, which an export does not need."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("nms", lambda boxes, *_: torch.arange(len(boxes)), "CPU")
    library.impl("roi_align", lambda x, rois, *_: x[rois[:, 0].long()], "CPU")
    sys.modules["torchvision"] = types.ModuleType("torchvision")
    yield
    del sys.modules["torchvision"]
    library._destroy()


class Detector(torch.nn.Module):
    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, boxes: Tensor, scores: Tensor) -> Any:
        kept = boxes[torch.ops.torchvision.nms(boxes, scores, 0.3)]
        rois = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], 1)
        return kept, torch.ops.torchvision.roi_align(IMAGES, rois, 1.0, 2, 2, self.samples, True)


def test_an_exported_program_does_not_need_torchvision(torchvision: None) -> None:
    boxes, scores = _boxes(9), _noise(9)
    program = export(Model(Detector(2), (boxes, scores)), samples=0)["forward"]  # the stub computes nothing
    assert not [node for node in program.graph.nodes if "torchvision" in str(node.target)]
    kept, means = program.module()(boxes, scores)
    torch.testing.assert_close(kept, boxes[_nms(boxes, scores, 0.3)])
    rois = torch.cat([torch.zeros(9, 1), boxes], 1)
    torch.testing.assert_close(means, _align(IMAGES, rois, 1.0, 2, 2, 2, True))
    assert "vision_operators" not in str(torch.ops.torchvision.nms)


def test_masks_are_resized_to_their_boxes() -> None:
    masks = _noise(4, 1, 3, 3).sigmoid()
    boxes = torch.tensor(
        [[1.2, 2.0, 6.9, 4.1], [-3.0, -2.5, 4.0, 3.0], [5.0, 3.0, 11.0, 12.0], [3, 3, 3.1, 3.1]]
    )
    expected = torch.zeros(4, 1, 8, 9)
    for n, box in enumerate(boxes.tolist()):
        # padded by one, for boxes that grow in proportion
        edges = [
            (box[i] + box[i + 2]) / 2 + s * (box[i + 2] - box[i]) / 2 * (5 / 3)
            for s in (-1, 1)
            for i in (0, 1)
        ]
        x, y, right, bottom = (math.trunc(edge) for edge in edges)
        padded = torch.nn.functional.pad(masks[n : n + 1], (1, 1, 1, 1))
        size = (max(bottom - y + 1, 1), max(right - x + 1, 1))
        resized = torch.nn.functional.interpolate(padded, size, mode="bilinear")[0, 0]
        for row, column in product(range(8), range(9)):
            if 0 <= row - y < size[0] and 0 <= column - x < size[1]:
                expected[n, 0, row, column] = resized[row - y, column - x]
    torch.testing.assert_close(_pasted_masks(masks, boxes, (8, 9)), expected)
    assert _pasted_masks(masks[:0], boxes[:0], (8, 9)).shape == (0, 1, 8, 9)


class Coder:
    def decode_single(self, codes: Tensor, boxes: Tensor) -> Tensor:
        return codes + boxes.repeat(1, codes.shape[1] // 4)

    def decode(self, codes: Tensor, boxes: list[Tensor]) -> Tensor:
        """Branches on a number of boxes, as torchvision does."""
        result = self.decode_single(codes, torch.cat(boxes))
        return result.reshape(-1, 2, 4) if sum(len(each) for each in boxes) > 0 else result


def test_counts_of_boxes_may_depend_on_values(torchvision: None, monkeypatch: pytest.MonkeyPatch) -> None:
    poolers = types.ModuleType("torchvision.ops.poolers")
    exec("def zeros(boxes): return boxes.new_zeros(len(boxes), 3)", poolers.__dict__)
    utils = types.ModuleType("torchvision.models.detection._utils")
    utils.BoxCoder = Coder  # type: ignore[attr-defined]
    for module in (poolers, utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    class Heads(torch.nn.Module):
        def forward(self, boxes: Tensor, scores: Tensor) -> Any:
            boxes = boxes[torch.ops.torchvision.nms(boxes, scores, 0.3)]
            return poolers.zeros(boxes), utils.BoxCoder().decode(boxes.repeat(1, 2), [boxes])

    boxes, scores = _boxes(9), _noise(9)
    zeros, decoded = export(Model(Heads(), (boxes, scores)), samples=0)["forward"].module()(boxes, scores)
    kept = boxes[_nms(boxes, scores, 0.3)]
    torch.testing.assert_close(decoded, (2 * kept).unsqueeze(1).expand(-1, 2, -1))
    assert zeros.shape == (len(kept), 3) and "len" not in vars(poolers)
    assert _decode(Coder(), torch.zeros(0, 8), [torch.zeros(0, 4)]).shape == (0, 2, 4)


def test_positions_in_heat_maps_have_a_remedy() -> None:
    heads: dict[str, Any] = {}
    path = "torchvision/models/detection/roi_heads.py"
    exec(compile("def heatmaps_to_keypoints(maps, boxes): return int(boxes)", path, "exec"), heads)

    class Keypoints(torch.nn.Module):
        def forward(self, maps: Tensor, boxes: Tensor) -> Any:
            return maps[: heads["heatmaps_to_keypoints"](maps, boxes.sum())]

    with pytest.raises(DelegatecError) as caught:
        export(Model(Keypoints(), (_noise(2, 3), torch.tensor([1, 1]))))
    (problem,) = caught.value.diagnostics
    assert problem.help.startswith(
        "find the positions after the program: before export, set roi_heads.heatmaps"
    )


def test_a_number_of_samples_that_depends_on_boxes_is_an_error(torchvision: None) -> None:
    with pytest.raises(NotImplementedError, match="the number of samples depends"):
        OPERATORS["roi_align"](IMAGES, ROIS, 1.0, 2, 2, -1, True)
    with pytest.raises(DelegatecError) as caught:
        export(Model(Detector(-1), (_boxes(9), _noise(9))))
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.help[:24]) == ("DC111", "pass a positive sampling")
