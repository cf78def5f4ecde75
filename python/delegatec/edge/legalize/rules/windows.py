# SPDX-License-Identifier: Apache-2.0
"""Geometry of pools.

Windows beyond the border (ceil_mode) are padding of the far side: shapes are right by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of, tensors
from delegatec.edge.symbols import is_dynamic

Pair = tuple[int, int]
"""Padding before and after the elements of a dimension."""


@dataclass(frozen=True)
class Windows:
    """Windows along one dimension.

    Attributes:
        size: size of the dimension.
        outputs: number of windows.
        kernel: elements of each.
        stride: from one to the next.
        dilation: from one element to the next.
        before: padding before the first element.
        padding: padding after the last one that counts.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int = 1
    before: int = 0
    padding: int = 0

    @property
    def after(self) -> int:
        """Padding that the last window needs, and no less than the padding that counts."""
        end = (self.outputs - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return max(self.padding, end - self.size - self.before)

    def counts(self, include_padding: bool) -> torch.Tensor:
        """Returns the number of elements that ATen divides each window by: int64 [outputs]."""
        start = torch.arange(self.outputs) * self.stride - self.before
        end = (start + self.kernel).clamp(max=self.size + self.padding)
        return end - start if include_padding else end.clamp(max=self.size) - start.clamp(min=0)


def windows_of(node: Node, rank: int) -> list[Windows]:
    """Returns the windows of a pooling node, for each of the last `rank` dimensions."""
    bound = bind(node)

    outputs = tensors(node.meta["val"])[0].shape[-rank:]
    kernel = each(bound["kernel_size"], rank)
    stride, padding, dilation = (
        each(bound.get(name), rank, default)
        for name, default in (("stride", kernel), ("padding", [0]), ("dilation", [1]))
    )
    sizes = shape_of(bound["self"])[-rank:]
    return [
        Windows(sizes[i], outputs[i], kernel[i], stride[i], dilation[i], padding[i], padding[i])
        for i in range(rank)
    ]


def bounds(size: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the first element of each window of an adaptive pool, and the one after its last.

    Window i has the elements from floor(i * size / outputs) to before ceil((i + 1) * size / outputs).
    """
    output = torch.arange(outputs)
    start = torch.div(output * size, outputs, rounding_mode="floor")
    return start, torch.div((output + 1) * size + outputs - 1, outputs, rounding_mode="floor")


def regular(size: int, outputs: int) -> Windows | None:
    """Returns the windows of an adaptive pool if they have one size and one distance."""
    start, end = bounds(size, outputs)
    kernel, stride = int(end[0]), int(start[1]) if outputs > 1 else size
    if stride == 0 or not torch.equal(start, torch.arange(outputs) * stride) or (end - start != kernel).any():
        return None
    return Windows(size, outputs, kernel, stride)


def members(size: int, outputs: int, missing: int | None = None) -> torch.Tensor:
    """Returns [outputs, K]: the elements of each window of an adaptive pool.

    A window smaller than K has `missing` for the others, or repeats its last element.
    """
    most = max(-((-(i + 1) * size) // outputs) - i * size // outputs for i in range(outputs))
    start, end = bounds(size, outputs)
    found = start.unsqueeze(1) + torch.arange(most)
    last = (end - 1).unsqueeze(1)
    return found.minimum(last) if missing is None else found.where(found <= last, missing)


def runs(size: int, outputs: int) -> list[tuple[int, Windows]]:
    """Returns runs of windows with one size and distance, and where each starts."""
    windows = [(int(start), int(end)) for start, end in zip(*bounds(size, outputs), strict=True)]
    found: list[list[tuple[int, int]]] = []
    for window in windows:
        if found and _is_regular([*found[-1], window]):
            found[-1].append(window)
        else:
            found.append([window])
    return [(run[0][0], _windows(run)) for run in found]


def _is_regular(run: Sequence[tuple[int, int]]) -> bool:
    strides = {later[0] - earlier[0] for earlier, later in pairwise(run)}
    return len(strides) == 1 and strides != {0} and len({end - start for start, end in run}) == 1


def _windows(run: Sequence[tuple[int, int]]) -> Windows:
    start, end = run[0]
    stride = run[1][0] - start if len(run) > 1 else 1
    return Windows(run[-1][1] - start, len(run), end - start, stride)


def padding_of(node: Node, windows: Sequence[Windows]) -> list[Pair] | None:
    """Returns the padding with which as many windows as ATen has fit; None if that depends on sizes."""
    if not bind(node)["ceil_mode"]:
        return [(axis.before, axis.padding) for axis in windows]
    if not is_dynamic(axis.size for axis in windows):
        return [(axis.before, axis.after) for axis in windows]
    # ATen has no window that starts in the padding after the elements: none does here
    if any(axis.stride + axis.padding > axis.dilation * (axis.kernel - 1) + 1 for axis in windows):
        return None
    return [(axis.before, axis.padding + axis.stride - 1) for axis in windows]
