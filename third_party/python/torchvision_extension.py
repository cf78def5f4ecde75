# SPDX-License-Identifier: Apache-2.0
"""Replaces `torchvision/extension.py`, which loads kernels, of the wheel of package indexes.

On x86-64, that wheel's kernels are linked to torch's build for GPUs: they cannot be loaded next to torch for
the CPU, and torchvision cannot be imported without the operators that they register. Models need them rarely.
This module registers all of them, `nms` and `roi_align` with kernels in Python, without gradients; calls of
the others are errors that say so. ExecuTorch's runtime has kernels of none of them.
"""

from __future__ import annotations

import math
from typing import Any, Final, NoReturn

import torch
from torch import Tensor

_BOXES: Final = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_PAIRS: Final = "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dil_h, SymInt dil_w"
_CONVOLUTION: Final = (
    f"Tensor offset, Tensor mask, Tensor bias, {_PAIRS}, SymInt groups, SymInt offset_groups"
)
_SIZES: Final = (
    "SymInt pooled_height, SymInt pooled_width, SymInt batch, SymInt channels, SymInt height, SymInt width"
)
# Operator -> its signature in torchvision 0.28, without a kernel here.
_WITHOUT_KERNEL: Final = {
    "box_iou_rotated": "(Tensor boxes1, Tensor boxes2) -> Tensor",
    "deform_conv2d": f"(Tensor input, Tensor weight, {_CONVOLUTION}, bool use_mask) -> Tensor",
    "ps_roi_align": f"({_BOXES}, int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool": f"({_BOXES}) -> (Tensor, Tensor)",
    "roi_pool": f"({_BOXES}) -> (Tensor, Tensor)",
    # of quantized tensors
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align": "(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    "int rois_zero_point, float spatial_scale, int pooled_height, int pooled_width, int sampling_ratio, "
    "bool aligned) -> Tensor",
    # gradients
    "_deform_conv2d_backward": f"(Tensor grad, Tensor input, Tensor weight, {_CONVOLUTION}, bool use_mask) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_ps_roi_align_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    "_ps_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"{_SIZES}) -> Tensor",
    "_roi_align_backward": f"(Tensor grad, Tensor rois, float spatial_scale, {_SIZES}, int sampling_ratio, "
    "bool aligned) -> Tensor",
    "_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, "
    f"{_SIZES}) -> Tensor",
}


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Returns the indices of the boxes that remain, by falling score.

    A box is removed if its intersection with one that remains, of a higher score, is more than a share of the
    union of both.

    Args:
        dets: float, [boxes, 4]: left, top, right, bottom.
        scores: float, [boxes].
        iou_threshold: the share.
    """
    order = scores.argsort(descending=True, stable=True)
    boxes = dets[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    remains = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if remains[index]:
            rest = boxes[index + 1 :]
            corner, opposite = boxes[index, :2].maximum(rest[:, :2]), boxes[index, 2:].minimum(rest[:, 2:])
            common = (opposite - corner).clamp(min=0).prod(1)
            union = areas[index] + areas[index + 1 :] - common
            remains[index + 1 :] &= ~(common / union > iou_threshold)
    return order[remains]


def _roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Returns the means of samples in the cells of boxes, between pixels by bilinear interpolation.

    Args:
        input: float, [images, channels, height, width].
        rois: float, [boxes, 5]: the image, left, top, right, bottom.
        spatial_scale: of the coordinates.
        pooled_height: rows of cells of a box.
        pooled_width: columns of cells.
        sampling_ratio: rows and columns of samples in a cell; not above 0 for one per pixel, rounded up.
        aligned: whether the middles of pixels are at 0.5, instead of boxes that have a size of at least 1.
    """
    results = []
    for image, *box in rois.tolist():
        left, top, right, bottom = (each * spatial_scale - 0.5 * aligned for each in box)
        least = -math.inf if aligned else 1.0
        across = _cells(left, max(right - left, least), pooled_width, sampling_ratio, input.shape[3])
        down = _cells(top, max(bottom - top, least), pooled_height, sampling_ratio, input.shape[2])
        results.append(down.to(input) @ input[int(image)] @ across.to(input).t())
    empty = input.new_empty(0, input.shape[1], pooled_height, pooled_width)
    return torch.stack(results) if results else empty


def _cells(start: float, size: float, cells: int, samples: int, pixels: int) -> Tensor:
    """Returns the factors of pixels in the cells of one dimension: float64, [cells, pixels]."""
    count = samples if samples > 0 else math.ceil(size / cells)
    if count <= 0:
        return torch.zeros(cells, pixels, dtype=torch.float64)
    steps = (torch.arange(cells * count, dtype=torch.float64) + 0.5) / count
    points = start + steps * (size / cells)
    inside = (points >= -1) & (points <= pixels)
    clamped = points.clamp(0, pixels - 1)
    distances = (clamped[:, None] - torch.arange(pixels, dtype=torch.float64)).abs()
    # The kernels leave out samples that are more than a pixel outside.
    factors = (1 - distances).clamp(min=0) * inside[:, None]
    return factors.reshape(cells, count, pixels).mean(1)


def _missing(name: str) -> Any:
    def fail(*_: object) -> NoReturn:
        raise NotImplementedError(
            f"torchvision::{name} has no kernel in this build: the wheel's are for GPUs. "
            "@rules_delegate//wheels:torchvision has nms and roi_align"
        )

    return fail


_LIBRARY: Final = torch.library.Library("torchvision", "DEF")
_LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_LIBRARY.impl("nms", _nms, "CPU")
_LIBRARY.define(f"roi_align({_BOXES}, int sampling_ratio, bool aligned) -> Tensor")
_LIBRARY.impl("roi_align", _roi_align, "CPU")
for _name, _signature in _WITHOUT_KERNEL.items():
    _LIBRARY.define(f"{_name}{_signature}")
    _LIBRARY.impl(_name, _missing(_name), "CPU")


def _load_library(lib_name: str) -> bool:
    """Whether a library of the wheel, such as the reader of images, is loaded: none is."""
    return False


def _has_ops() -> bool:
    """Whether the operators are registered. Without them, `roi_align` would need a compiler of C++."""
    return True


def _assert_has_ops() -> None:
    """Accepts a call: the operators that have no kernel raise an error themselves."""


def _check_cuda_version() -> int:
    """Returns the version of CUDA that kernels are for: none."""
    return -1
