# SPDX-License-Identifier: Apache-2.0
"""Convolutions in three dimensions as convolutions of images: XNNPACK has no others.

A kernel of one plane becomes a convolution of all planes, and a kernel of one pixel a convolution of images
of depth x pixels. Otherwise, the planes that a window reads are channels of one image, or are convolved and
added if there are groups.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.convolutions import Convolution
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit
from delegatec.edge.legalize.rule import Refusal
from delegatec.edge.legalize.value import Value, cat
from delegatec.edge.quantization.constant import quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.symbols import is_dynamic

_TRANSPOSED: Final = Refusal("argument", "transposed convolutions in three dimensions have no form in two")
_VARY: Final = Refusal("shape", "planes, rows or columns are dynamic: only the batch may be")
_COMPUTED: Final = Refusal("argument", "a weight that is not constant")

_DEPTH_AND_PIXELS: Final = slice(0, 3, 2)
_ROWS_AND_COLUMNS: Final = slice(1, 3)


def convolution_of_volumes(node: Node, x: Value) -> Any:
    """Returns a convolution of [N, C, D, H, W]; a rejection if it has no two-dimensional form."""
    call, (weight, filter) = Convolution.of(node), _weight(x.builder, bind(node)["weight"])
    if call.transposed:
        return _TRANSPOSED
    if weight is None:
        return _COMPUTED
    if is_dynamic(x.shape[1:]):
        return _VARY
    return channels_first(_Volumes(node, call, weight, filter, channels_last(x)).convolved()).node


def _weight(builder: Builder, node: Node) -> tuple[Tensor | None, Callable[[Tensor], Node]]:
    """Returns a weight's values or quantized values, and a function that makes a filter of its elements.

    Filters have the weight's output channels as their first dimension, and so the same scales.
    """
    constant = builder.facts.constant
    weight, found = constant(node), quantized_constant(node, constant)
    if found is None:
        return None if weight is None else weight.detach(), lambda kernel: builder.derived(node, kernel)
    dtype, (_, *others) = node.meta["val"].dtype, found.values.shape
    if found.dtype != torch.int8 or found.zero_points is not None or [*found.block[1:]] != others:
        return found.dequantized(), lambda kernel: builder.derived(found.source, kernel, dtype)
    scales = builder.constant(found.scales.flatten().repeat_interleave(found.block[0]))

    def quantized_filter(kernel: Tensor) -> Node:
        values = builder.derived(found.source, kernel)
        block = [1, *kernel.shape[1:]]
        return builder.call(DEQUANTIZE_BLOCKS, values, block, scales, None, torch.int8, output_dtype=dtype)

    return found.values, quantized_filter


class _Volumes:
    """A convolution of volumes.

    Args:
        node: its call.
        call: the arguments.
        weight: its values or quantized values, [O, C / groups, kD, kH, kW].
        filter: makes a filter of a part of them.
        x: the input, [N, D, H, W, C].
    """

    def __init__(
        self, node: Node, call: Convolution, weight: Tensor, filter: Callable[[Tensor], Node], x: Value
    ) -> None:
        self._call, self._weight, self._filter, self._x = call, weight, filter, x
        self._bias = bind(node)["bias"]
        batch, outputs, *sizes = node.meta["val"].shape
        self._shape = [batch, *sizes, outputs]

    def convolved(self) -> Value:
        """Returns the result, [N, D, H, W, O]."""
        taps, *kernel = self._weight.shape[2:]
        window = [*self._call.stride[1:], *self._call.padding[1:]]
        if taps > 1 and kernel == [1, 1] and window == [1, 1, 0, 0]:
            result = self._of_lines()
        elif taps == 1 or self._call.groups == 1:
            result = self._of_joined_planes()
        else:
            result = self._of_single_planes()
        return result.view(*self._shape)

    def _of_lines(self) -> Value:
        """Convolves images of depth x pixels."""
        batch, depth, height, width, channels = self._x.shape
        lines = self._x.view(batch, depth, height * width, channels)
        shape = [*self._shape[:2], height * width, self._shape[-1]]
        return self._emitted(lines, self._weight.squeeze(4), self._bias, _DEPTH_AND_PIXELS, shape)

    def _of_joined_planes(self) -> Value:
        """Convolves images whose channels are the concatenated channels of all planes that a window reads."""
        planes = self._planes()
        joined = planes[0] if len(planes) == 1 else cat(planes, 4)
        return self._of_images(joined, self._weight.transpose(1, 2).flatten(1, 2), self._bias)

    def _of_single_planes(self) -> Value:
        """Adds the convolutions of each plane that a window reads."""
        parts = [
            self._of_images(plane, self._weight[:, :, tap], None if tap else self._bias)
            for tap, plane in enumerate(self._planes())
        ]
        return functools.reduce(operator.add, parts)

    def _planes(self) -> list[Value]:
        """Returns the planes that windows read, the first of all windows, the second, and so on."""
        x, step, padding = self._x, self._call.stride[0], self._call.padding[0]
        if padding:
            x = x.pad([0, 0, 0, 0, 0, 0, padding, padding])
        last = (self._shape[1] - 1) * step + 1
        starts = [tap * self._call.dilation[0] for tap in range(self._weight.shape[2])]
        return [x.slice(1, start, start + last, step) for start in starts]

    def _of_images(self, x: Value, kernel: Tensor, bias: Node | None) -> Value:
        """Convolves the planes of [N, D, H, W, C] as a batch of images."""
        batch, depth, *sizes = self._shape
        images = x.view(batch * depth, *x.shape[2:])
        return self._emitted(images, kernel, bias, _ROWS_AND_COLUMNS, [batch * depth, *sizes])

    def _emitted(
        self, x: Value, kernel: Tensor, bias: Node | None, dims: slice, shape: Sequence[Any]
    ) -> Value:
        """Convolves [N, H, W, C] with a kernel [O, C, kH, kW] along two of the three dimensions."""
        call = self._call
        stride, padding, dilation = (list(each[dims]) for each in (call.stride, call.padding, call.dilation))
        pads = [amount for amount in padding for _ in range(2)]
        options = (stride, pads, dilation, call.groups)
        operands = (x, self._filter(kernel), bias)
        return emit(NHWC.conv2d.default, *operands, *options, shape=shape, weight_order="OIHW")
