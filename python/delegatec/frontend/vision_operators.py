# SPDX-License-Identifier: Apache-2.0
"""Operators of torchvision in terms of torch's, for the time of an export.

The exported program has no operators of torchvision, which a reader of the file would need. torchvision is
not imported here: without it, there is nothing to replace.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor

SAMPLES: Final = "the number of samples depends on the sizes of the boxes"
"""Why boxes without `sampling_ratio` cannot be exported."""


@contextlib.contextmanager
def vision_operators_replaced() -> Iterator[None]:
    """Replaces torchvision's operators, if the model has imported it."""
    with contextlib.ExitStack() as stack:
        for name, function in OPERATORS.items() if "torchvision" in sys.modules else ():
            if hasattr(torch.ops.torchvision, name):
                stack.enter_context(patch.object(torch.ops.torchvision, name, function))
        for name, attribute, function in _FUNCTIONS:
            owner, _, member = attribute.rpartition(".")
            if found := sys.modules.get(name):
                found = getattr(found, owner) if owner else found
                # with `create`: `len` is a builtin, which modules do not contain
                stack.enter_context(patch.object(found, member, function, create=True))
        yield


# ---- boxes -------------------------------------------------------------------------------------------------


def _nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Returns the positions of boxes that do not overlap with a better one, best first.

    A box stays if no better box that stays overlaps with it. Each iteration over all boxes is final for at
    least one more rank.
    """
    low, high = boxes.float().chunk(2, 1)
    area = (high - low).prod(1)
    sides = torch.minimum(high.unsqueeze(1), high) - torch.maximum(low.unsqueeze(1), low)
    shared = sides.clamp(min=0.0).prod(2)
    overlaps = shared / (area.unsqueeze(1) + area - shared) > threshold
    # by comparisons: torch sorts a dynamic number of elements by functions without a kernel
    position, scores = (
        torch.arange(boxes.shape[0], device=boxes.device),
        scores.nan_to_num(torch.inf, torch.inf),
    )
    is_equal = scores.unsqueeze(1) == scores
    is_better = (scores.unsqueeze(1) > scores) | (is_equal & (position.unsqueeze(1) < position))
    suppresses = overlaps & is_better
    order = torch.zeros_like(position).scatter(0, is_better.sum(0), position)

    def is_open(stays: Tensor, before: Tensor) -> Tensor:
        return (stays != before).any()

    def repeat(stays: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        return ~(suppresses & stays.unsqueeze(1)).any(0), stays.clone()

    start = torch.ones_like(position, dtype=torch.bool)
    stays, _ = torch.while_loop(is_open, repeat, (start, ~start))  # type: ignore[no-untyped-call]
    return order[stays[order]]


def _batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Separates the boxes of classes by moving them; torchvision does so for few boxes only."""
    ends = torch.cat([boxes.flatten(), boxes.new_zeros(1)])
    moved = boxes + (idxs.to(boxes.dtype) * (ends.amax() - ends.amin() + 1.0)).unsqueeze(1)
    return _nms(moved, scores, iou_threshold)


def _length(items: Any) -> Any:
    """Returns the length; that of a tensor may be a symbol, which Python's `len` would specialize."""
    return items.shape[0] if isinstance(items, Tensor) else len(items)


def _pasted_masks(masks: Tensor, boxes: Tensor, sizes: tuple[int, int], padding: int = 1) -> Tensor:
    """Resizes each mask [1, M, M] to its box in an image, bilinearly, by products with its weights."""
    grown = torch.nn.functional.pad(masks[:, 0], (padding,) * 4)
    size = grown.shape[2]
    low, high = boxes.chunk(2, 1)
    center, half = (low + high) * 0.5, (high - low) * (0.5 * size / masks.shape[3])
    first, last = (center - half).long(), (center + half).long()

    def weights(axis: int, pixels: int) -> Tensor:
        start, end = first[:, axis : axis + 1], last[:, axis : axis + 1]
        count = (end - start + 1).clamp(min=1)
        local = torch.arange(pixels, device=boxes.device) - start
        position = ((local + 0.5) * (size / count) - 0.5).clamp(0.0, size - 1.0)
        is_inside = (local >= 0) & (local < count)
        share = 1.0 - (torch.arange(size, device=boxes.device) - position.unsqueeze(2)).abs()
        return share.clamp(min=0.0) * is_inside.unsqueeze(2)

    return (weights(1, sizes[0]) @ grown @ weights(0, sizes[1]).mT).unsqueeze(1)


def _decode(coder: Any, codes: Tensor, boxes: list[Tensor]) -> Tensor:
    """Returns boxes [N, classes, 4], also for N = 0, which torchvision checks for."""
    result: Tensor = coder.decode_single(codes, torch.cat(boxes))
    return result.reshape(result.shape[0], result.shape[1] // 4, 4)


# ---- pools of regions --------------------------------------------------------------------------------------


def _corners(position: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Returns both neighbors of each position, and their weights; zero weights beyond the border."""
    is_inside = ((position >= -1.0) & (position <= size)).to(position.dtype)
    position = position.clamp(0.0, size - 1.0)
    low = position.floor()
    part = position - low
    high = (low + 1.0).clamp(max=size - 1.0)
    return [(low.long(), (1.0 - part) * is_inside), (high.long(), part * is_inside)]


def _roi_align(
    x: Tensor, rois: Tensor, scale: float, height: int, width: int, samples: int, aligned: bool
) -> Tensor:
    """Returns [K, C, height, width]: means of `samples` squared values, each between four pixels."""
    if samples <= 0:
        raise NotImplementedError(f"{SAMPLES}: sampling_ratio is {samples}")
    rows = x.float().permute(0, 2, 3, 1).reshape(-1, x.shape[1])
    image, regions = rois[:, 0].long().view(-1, 1, 1), rois[:, 1:].float() * scale - 0.5 * aligned

    def positions(first: int, count: int) -> Tensor:
        start, end = regions[:, first : first + 1], regions[:, first + 2 : first + 3]
        size = end - start
        size = size if aligned else size.clamp(min=1.0)
        return start + (torch.arange(count * samples, device=x.device) + 0.5) / samples * (size / count)

    result: Any = 0.0
    for row, part in _corners(positions(1, height), x.shape[2]):
        for column, other in _corners(positions(0, width), x.shape[3]):
            index = (image * x.shape[2] + row.unsqueeze(2)) * x.shape[3] + column.unsqueeze(1)
            weight = part.unsqueeze(2) * other.unsqueeze(1)
            result = result + rows.index_select(0, index.reshape(-1)) * weight.reshape(-1, 1)
    result = result.reshape(-1, height, samples, width, samples, x.shape[1])
    found: Tensor = result.mean((2, 4)).permute(0, 3, 1, 2).to(x.dtype)
    return found


def _ps_roi_align(
    x: Tensor, rois: Tensor, scale: float, height: int, width: int, samples: int
) -> tuple[Tensor, Tensor]:
    """Pools one channel per element of the result."""
    every = _roi_align(x, rois, scale, height, width, samples, True)
    every = every.reshape(-1, x.shape[1] // (height * width), height, width, height, width)
    return every.diagonal(0, 2, 4).diagonal(0, 2, 3), _unused(x)


def _roi_pool(x: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Returns maxima of parts of regions: along rows, then along columns; zero for those without pixels."""
    scaled = rois[:, 1:] * scale
    regions = (scaled + torch.copysign(torch.full_like(scaled, 0.5), scaled)).trunc()

    def masks(first: int, count: int, size: int) -> Tensor:
        start = regions[:, first : first + 1]
        step = (regions[:, first + 2 : first + 3] - start + 1.0).clamp(min=1.0) / count
        part, pixel = torch.arange(count, device=x.device), torch.arange(size, device=x.device)
        low, high = (part * step).floor() + start, ((part + 1) * step).ceil() + start
        return (pixel >= low.unsqueeze(2)) & (pixel < high.unsqueeze(2))

    pixels = x.index_select(0, rois[:, 0].long())
    across = masks(0, width, x.shape[3]).unsqueeze(1).unsqueeze(1)
    partial = torch.where(across, pixels.unsqueeze(3), -torch.inf).amax(4)
    along = masks(1, height, x.shape[2]).unsqueeze(1)
    result = torch.where(along.unsqueeze(4), partial.unsqueeze(2), -torch.inf).amax(3)
    is_empty = ~(along.any(3).unsqueeze(3) & across.any(4))
    return torch.where(is_empty, 0.0, result), _unused(x)


def _unused(x: Tensor) -> Tensor:
    """Returns an empty tensor for a result that only derivatives need."""
    return x.new_zeros(0, dtype=torch.int32)


# ---- convolution -------------------------------------------------------------------------------------------


def _deform_conv2d(
    x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *settings: Any
) -> Tensor:
    """Convolves at positions moved by offsets: gathers the pixels of all taps, for one matrix product."""
    *sizes, groups, sets, use_mask = settings
    count, channels, taps, outputs = x.shape[0], x.shape[1], weight.shape[2:], offset.shape[2:]
    moved = offset.reshape(count, sets, *taps, 2, *outputs)
    pixels = x.reshape(count, sets, channels // sets, -1)
    corners: list[list[tuple[Tensor, Tensor]]] = []
    for axis in (0, 1):
        stride, pad, dilation = sizes[axis], sizes[2 + axis], sizes[4 + axis]
        tap = torch.arange(taps[axis], device=x.device) * dilation - pad
        position = torch.arange(outputs[axis], device=x.device) * stride
        base = tap.view(-1, *[1] * (3 - axis)) + position.view(-1, *[1] * (1 - axis))
        corners.append(_around(moved[:, :, :, :, axis] + base, x.shape[2 + axis]))
    columns: Any = 0.0
    for row, part in corners[0]:
        for column, other in corners[1]:
            index = (row * x.shape[3] + column).reshape(count, sets, 1, -1)
            found = pixels.gather(3, index.expand(-1, -1, channels // sets, -1))
            columns = columns + found * (part * other).reshape(count, sets, 1, -1)
    if use_mask:
        columns = columns * mask.reshape(count, sets, 1, -1)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)
    product: Tensor = matrix @ columns.reshape(count, groups, matrix.shape[2], -1)
    result: Tensor = product.reshape(count, weight.shape[0], *outputs) + bias.view(-1, 1, 1)
    return result


def _around(position: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Returns both neighbors of each position, and their weights; there are zeros around the image."""
    low = position.floor()
    part = position - low
    found = []
    for corner, weight in ((low, 1.0 - part), (low + 1.0, part)):
        is_inside = (corner >= 0.0) & (corner <= size - 1.0)
        found.append((corner.clamp(0.0, size - 1.0).long(), torch.where(is_inside, weight, 0.0)))
    return found


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "deform_conv2d": _deform_conv2d,
    "nms": _nms,
    "ps_roi_align": _ps_roi_align,
    "roi_align": _roi_align,
    "roi_pool": _roi_pool,
}
# Module, its function, and the replacement.
_FUNCTIONS: Final[tuple[tuple[str, str, Callable[..., Any]], ...]] = (
    ("torchvision.ops", "batched_nms", _batched_nms),
    ("torchvision.ops.boxes", "batched_nms", _batched_nms),
    ("torchvision.ops.poolers", "len", _length),
    ("torchvision.models.detection._utils", "BoxCoder.decode", _decode),
    ("torchvision.models.detection.transform", "paste_masks_in_image", _pasted_masks),
)
