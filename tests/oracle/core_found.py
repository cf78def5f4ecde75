# SPDX-License-Identifier: Apache-2.0
"""Models with data-dependent sizes: the results of searches, filters or counts decide shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import Case, Function, noise


def _count(count: Tensor, most: int) -> Any:
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= most)
    return n


def _kept(x: Tensor, scores: Tensor) -> Tensor:
    """Rows of high score, then all: an empty selection next to something that is not."""
    return torch.cat([x[torch.where(scores > 0.5)[0]], x]).amax(0)


def _best(x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = x.topk(_count(count, 6), 0)
    return values * 2, F.relu(values.sum(0)) + indices.sum(0)


def _first(x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    kept = x[: _count(count, 6)]
    return F.relu(kept @ x.T) + 1, kept.sum(0) * 2


def _filled(x: Tensor, count: Tensor) -> Tensor:
    return torch.cat([x, torch.full((_count(count, 6), x.shape[1]), 0.5)]).sigmoid()


def _split(x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    n = _count(count, 6)
    head, rest = torch.split(x, [n, 6 - n])
    return head * 2 + 1, rest.tanh()


def _repeated(x: Tensor, counts: Tensor) -> Tensor:
    return torch.repeat_interleave(x, counts, 0, output_size=_count(counts.sum(), 9)) * 2 + 1


def _masked(x: Tensor) -> tuple[Tensor, Tensor]:
    found = x.masked_select(x > 0)
    return found.exp() + 1, (found * found).sum()


def _written(x: Tensor) -> Tensor:
    y = x.clone()
    y[x[:, 0] > 0] = 0.25
    return y.relu() + 1


def _decoded(boxes: Tensor, indices: Tensor) -> Tensor:
    centers = torch.stack([indices % 4, indices // 4], 1).to(boxes.dtype)
    return torch.cat([centers - boxes[:, :2].exp(), centers + boxes[:, 2:].exp()], 1).clamp(0, 4)


def _overlaps(boxes: Tensor) -> Tensor:
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (areas[:, None] + areas[None, :] - shared + 1e-6)


class _Head(nn.Module):
    """A detector without anchors: scores, boxes, centerness; each level keeps the boxes above a threshold."""

    def __init__(self, filters: bool = True) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.coarser = nn.Conv2d(8, 8, 3, 2, 1)
        self.classes = nn.Conv2d(8, 3, 3, padding=1)
        self.boxes = nn.Conv2d(8, 4, 3, padding=1)
        self.centers = nn.Conv2d(8, 1, 3, padding=1)
        self.filters = filters

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        level = self.backbone(image)
        boxes, scores, labels = [], [], []
        for features in (level, self.coarser(level)):
            score = (self.classes(features).sigmoid() * self.centers(features).sigmoid()).sqrt()
            flat = score[0].permute(1, 2, 0).flatten()
            found = torch.where(flat > 0.5)[0]
            index, label = found // 3, found % 3
            box = self.boxes(features)[0].permute(1, 2, 0).reshape(-1, 4)[index]
            boxes.append(_decoded(box, index))
            scores.append(flat[found])
            labels.append(label)
        all_boxes, all_scores, all_labels = torch.cat(boxes), torch.cat(scores), torch.cat(labels)
        order = all_scores.argsort(descending=True)
        all_boxes = all_boxes[order]
        kept = order >= 0
        if self.filters:  # not a sequential NMS: a box that overlaps any better one is dropped
            worse = (_overlaps(all_boxes) > 0.5).tril(-1)
            kept = ~worse.any(1)
        return all_boxes[kept], all_scores[order][kept], all_labels[order][kept]


class _Both(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[x[:, 0] > 0], x]).relu() + 1


def _tensors(*shape: int, shift: float = 0.0) -> list[tuple[Any, ...]]:
    """Some found, none found, all found."""
    return [(noise(*shape) + shift,), (noise(*shape, seed=1) - 9,), (noise(*shape, seed=2) + 9,)]


def _case(function: Callable[..., Any], *shape: int) -> Case:
    return Case(lambda: Function(function), _tensors(*(shape or (6, 4))))


def _counted(function: Callable[..., Any]) -> Case:
    return Case(lambda: Function(function), [(noise(6, 4), torch.tensor(n)) for n in (3, 0, 6)])


FOUND: dict[str, Case] = {
    "rows_and_all": Case(
        lambda: Function(_kept),
        [
            (noise(6, 4), torch.tensor(each))
            for each in ([0.9, 0.1, 0.7, 0.2, 0.6, 0.3], [0.0] * 6, [1.0] * 6)
        ],
    ),
    "nonzero": _case(lambda x: (F.relu(x.relu().nonzero().float() * 2 - 1), x.sigmoid())),
    "masked_select": _case(_masked),
    "rows_by_mask": _case(lambda x: (F.layer_norm(x[x[:, 0] > 0], [4]) + 1, x.softmax(1) * 2)),
    "elements_by_mask": _case(lambda x: (x[x > 0] * 2, torch.relu(x) + x[x > 0].sum())),
    "linear_of_rows": _case(lambda x: F.gelu(F.linear(x[x[:, 1] > 0], torch.ones(5, 4)))),
    "written_by_mask": _case(_written),
    "argwhere": _case(lambda x: torch.argwhere(x > 0) * 2 + 1),
    "softmax_of_found": _case(lambda x: (x[x[:, 0] > 0].softmax(0), x[x[:, 0] > 0].softmax(1))),
    "matmul_of_found": _case(lambda x: (x[x[:, 0] > 0] @ x.T, x[x[:, 0] > 0] @ x[x[:, 0] > 0].T)),
    "stack_of_found": _case(lambda x: torch.stack([x[x[:, 0] > 0], x[x[:, 0] > 0].relu()], 1) + 1),
    "cat_of_found": _case(lambda x: torch.cat([x[x[:, 0] > 0], x[x[:, 0] <= 0]]).exp().clamp(max=5)),
    "cat_of_none": _case(lambda x: torch.cat([x[x[:, 0] > 8], x[x[:, 0] > 8]]) * torch.ones(4) + 1),
    "cat_beside_found": _case(lambda x: torch.cat([x[x[:, 0] > 0], x[x[:, 0] > 0] * 2], 1).relu() + 1),
    "extrema_of_found": _case(
        lambda x: (x[x[:, 0] > 0].amax(1), x[x[:, 0] > 0].amin(1, keepdim=True), x.sigmoid() + 1)
    ),
    "log_softmax_of_found": _case(
        lambda x: (x[x[:, 0] > 0].log_softmax(0), x[x[:, 0] > 0].log_softmax(1), x.sigmoid() + 1)
    ),
    "sorted_found": _case(lambda x: (x[x[:, 0] > 0].sort(0), x[x > 0].argsort() + 1, x.sigmoid() + 1)),
    "selected_of_found": _case(
        lambda x: (x[x[:, 0] > 0].index_select(0, (x[x[:, 0] > 0][:, 1] > 9).nonzero()[:, 0]), x.exp() + 1)
    ),
    "two_found": _case(lambda x: x[x[:, 0] > 0].sum(0) * x[x[:, 1] > 0].sum(0)),
    "image_and_found": Case(
        lambda: Function(
            lambda x: (F.max_pool2d(F.conv2d(x, torch.ones(4, 3, 3, 3)), 2), x[0, 0][x[0, 0] > 0].sum())
        ),
        _tensors(1, 3, 8, 8),
    ),
    "number_and_rows": _counted(_first),
    "number_of_rows": _counted(_filled),
    "number_of_both": _counted(_split),
    "best": _counted(_best),
    "number_as_factor": Case(
        lambda: Function(lambda x, n: torch.relu(x * n.item()) + 1),
        [(noise(6, 4), torch.tensor(n)) for n in (3, 0)],
    ),
    "repeated": Case(
        lambda: Function(_repeated),
        [(noise(3, 4), torch.tensor(each)) for each in ([2, 0, 3], [0, 0, 0], [1, 1, 1])],
    ),
    "detector": Case(_Head, _tensors(1, 3, 16, 16)),
    "detector_of_all": Case(lambda: _Head(filters=False), _tensors(1, 3, 16, 16)),
    "found_of_dynamic": Case(
        _Both,
        [(noise(n, 4, seed=n),) for n in (6, 2, 9)],
        dynamic_shapes=({0: Dim("n", min=2, max=9)},),
    ),
}
