# SPDX-License-Identifier: Apache-2.0
"""Sums, means, extrema and pools of integers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.accumulators import finished
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.matrices import product
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, UnsupportedError
from delegatec.edge.arguments import bind, positive, shape_of, tensors
from delegatec.edge.channels_last.rewrites.convolutions import Convolution, convolve
from delegatec.edge.channels_last.rewrites.exact_pools import averages, maxima
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last
from delegatec.edge.channels_last.rewrites.pools import padded
from delegatec.edge.channels_last.rewrites.resizing import interpolated, linear_axes
from delegatec.edge.legalize.rules.pooling import images
from delegatec.edge.legalize.rules.windows import windows_of
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

_MOST_ROWS: Final = 64
"""Of kernels, on Ethos-U55."""
_CHANNELS: Final = 16
_MOST_CALLS: Final = 12
"""Between a view of images and a sum of its groups."""


def _dims(node: Node, name: str = "dim") -> list[int]:
    bound = bind(node)
    rank = len(shape_of(bound["self"]))
    dims = bound.get(name)
    dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return sorted(positive(dim, rank) for dim in dims)


def _sum(is_mean: bool) -> Convert:
    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        value = conversion.of(bound["self"])
        if isinstance(value, Fixed):
            raise UnsupportedError("the sum of a constant")
        dims = _dims(node) if value.shape else []
        return total(conversion, value, dims, bool(bound.get("keepdim")), is_mean)

    return convert


def total(
    conversion: Conversion, value: Quantity, dims: list[int], keepdim: bool, is_mean: bool, divisor: int = 0
) -> Quantized:
    """Returns a sum or a mean along dimensions; its divisor is their element count by default."""
    count = math.prod(value.shape[dim] for dim in dims)
    if isinstance(value, Quantized) and value.is_narrow and _is_image(value, dims):
        summed = _image_sums(conversion, value, keepdim)
        return replace(summed, scale=(value.scale[0] / (count if is_mean else 1),))
    image = _viewed_image(value, dims) if isinstance(value, Quantized) and value.is_narrow else None
    if image is not None:
        assert isinstance(value, Quantized)
        viewed = Value(conversion.arithmetic.builder, value.node).view(*image)
        alone = replace(value, node=viewed.node)
        if _is_image(alone, [2, 3]):
            batch, groups = value.shape[:2]
            summed = _image_sums(conversion, alone, keepdim=False)
            parts = Value(viewed.builder, summed.node).view(batch, groups, image[1] // groups)
            return total(conversion, replace(summed, node=parts.node), dims, keepdim, is_mean, count)
    wide = conversion.arithmetic.wide(value, 30 - max(count - 1, 0).bit_length())
    sizes = [1 if dim in dims else size for dim, size in enumerate(wide.shape) if keepdim or dim not in dims]
    node = conversion.arithmetic.call(
        aten.sum.dim_IntList, wide.node, dims, keepdim, dtype=torch.int32, shape=sizes
    )
    node.kwargs = {"dtype": torch.int32}
    return Quantized(node, (wide.scale[0] / ((divisor or count) if is_mean else 1),), 0, wide.limit * count)


def _viewed_image(quantized: Quantized, dims: list[int]) -> tuple[int, ...] | None:
    """Returns the shape of images whose groups of channels are rows that are added."""
    if len(quantized.shape) != 3 or dims != [2]:
        return None
    batch, groups, _ = quantized.shape
    node = quantized.node
    for _ in range(_MOST_CALLS):
        if node.op != "call_function" or not node.all_input_nodes:
            return None
        first = node.all_input_nodes[0]
        shape = shape_of(first)
        if node.target is aten.view.default and len(shape) == 4:
            return shape if shape[0] == batch and shape[1] % groups == 0 else None
        if shape != quantized.shape:
            return None
        node = first
    return None


def _is_image(quantized: Quantized, dims: list[int]) -> bool:
    """Whether dimensions are height and width of images that `_image_sums` supports."""
    if quantized.dtype != torch.int8 or len(quantized.shape) != 4 or dims != [2, 3]:
        return False
    count = math.prod(quantized.shape[2:])
    rows = _divisor(count, _MOST_ROWS) if count > 1 else 0
    return quantized.low == -math.inf == -quantized.high and rows**2 >= min(count, _MOST_ROWS)


def _image_sums(conversion: Conversion, quantized: Quantized, keepdim: bool) -> Quantized:
    """Returns the sum of each image.

    NPUs transpose values to reduce them, and need a cycle per weight of a convolution of each channel. So
    one of 16 channels adds all: other channels are columns of its images, and rows are the elements to add.
    """
    batch, channels, height, width = quantized.shape
    builder = conversion.arithmetic.builder
    group = _divisor(channels, _CHANNELS)
    rows = _divisor(height * width, _MOST_ROWS)
    # NPUs copy a value that other calls use in another shape: its own costs one addition more
    if channels == group and height <= _MOST_ROWS and width <= 2 * height * width // rows:
        rows = height
    rest = height * width // rows
    images = channels_last(Value(builder, quantized.node)).view(batch, rows, rest * channels // group, group)
    weight = builder.constant(torch.ones((group, 1, rows, 1), dtype=torch.int8))
    call = Convolution([1, 1], [0, 0], [1, 1], False, [0, 0], group, quantized.zero)
    found = convolve(channels_first(images), Value(builder, weight), None, call)
    assert found is not None
    result = _added(channels_last(found).view(batch, rest, 1, channels))
    result = channels_first(result) if keepdim else result.view(batch, channels)
    return Quantized(result.node, quantized.scale, 0, quantized.limit * height * width)


def _added(x: Value) -> Value:
    """Returns the sum along dimension 1 by halves, since NPUs transpose int32 values to reduce them."""
    odd: list[Value] = []
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        if x.shape[1] % 2:
            odd.append(x.slice(1, 2 * half, 2 * half + 1))
        x = x.slice(1, 0, half) + x.slice(1, half, 2 * half)
    return reduce(Value.__add__, odd, x)


def _divisor(total: int, most: int) -> int:
    """Returns the largest divisor up to a limit."""
    return next(each for each in range(min(total, most), 0, -1) if total % each == 0)


def _extreme(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    quantized = conversion.as_quantized(conversion.of(bound["self"]), node)
    return conversion.moved(node, quantized, quantized.node, *node.args[1:], **node.kwargs)


def _position(conversion: Conversion, node: Node) -> None:
    bound = bind(node)
    operand = bound["self"]
    narrow = conversion.narrow(conversion.of(operand), operand)
    conversion.replaced[node] = conversion.arithmetic.call(
        node.target, narrow.node, *node.args[1:], dtype=torch.int64, shape=shape_of(node)
    )


def _max_pool(conversion: Conversion, node: Node) -> None:
    bound = bind(node)
    operand = bound["self"]
    value = conversion.of(operand)
    quantized = conversion.narrow(value, node)
    if any(user.args[1] for user in node.users):
        raise UnsupportedError("the positions of maxima")
    builder = conversion.arithmetic.builder
    x = channels_last(images(Value(builder, quantized.node)))
    result = channels_first(maxima(x, windows_of(node, 2)))
    result = result.view(*tensors(node.meta["val"])[0].shape)
    for user in list(node.users):
        if user.target is operator.getitem:
            conversion.quantities[user] = replace(quantized, node=result.node)


def _avg_pool(conversion: Conversion, node: Node) -> Quantity:
    bound, windows = bind(node), windows_of(node, 2)
    quantized = conversion.narrow(conversion.of(bound["self"]), node)
    to = conversion.target(node)
    builder = conversion.arithmetic.builder
    first = images(Value(builder, quantized.node))
    divisor = bound["divisor_override"]
    area = math.prod(axis.kernel for axis in windows)
    is_padded = any(axis.before or axis.padding for axis in windows)
    is_same = to is not None and (to.dtype, to.scales, to.zero_point) == (
        quantized.dtype,
        quantized.scale,
        quantized.zero,
    )
    is_average = divisor in (None, area)
    is_even = not is_padded or bound["count_include_pad"] or bool(divisor)
    alone = replace(quantized, node=first.node)
    if all(axis.counts(False).tolist() == [axis.size] for axis in windows) and _is_image(alone, [2, 3]):
        summed = _image_sums(conversion, alone, keepdim=True)
        area = math.prod(int(axis.counts(bound["count_include_pad"])) for axis in windows)
    elif is_even and not (is_same and is_average):
        summed = _window_sums(conversion, quantized, first, node)
    else:
        x = channels_last(first)
        if divisor or bound["count_include_pad"]:
            amounts = [(axis.before, axis.after if divisor else axis.padding) for axis in windows]
            x, windows = padded(x, windows, amounts, quantized.zero)
        zeros = (quantized.zero, quantized.zero)
        pooled = channels_first(averages(x, windows, zeros=zeros)).view(*shape_of(node))
        return replace(quantized, node=pooled.node, scale=(quantized.scale[0] * area / (divisor or area),))
    sums = Value(builder, summed.node).view(*shape_of(node))
    return replace(summed, node=sums.node, scale=(quantized.scale[0] / (divisor or area),))


def _window_sums(conversion: Conversion, quantized: Quantized, x: Value, node: Node) -> Quantized:
    """Returns the sum of each window, by a convolution of each channel with ones."""
    windows = windows_of(node, 2)
    channels = x.shape[1]
    kernel = [axis.kernel for axis in windows]
    weight = torch.ones((channels, 1, *kernel), dtype=torch.int8)
    builder = conversion.arithmetic.builder
    padding = [axis.before for axis in windows]
    call = Convolution(
        [axis.stride for axis in windows], padding, [1, 1], False, [0, 0], channels, quantized.zero
    )
    result = convolve(x, Value(builder, builder.constant(weight)), None, call)
    assert result is not None
    if result.shape[2:] != tuple(axis.outputs for axis in windows):
        raise UnsupportedError("a pool whose windows begin in the padding")
    return Quantized(result.node, quantized.scale, 0, quantized.limit * math.prod(kernel))


def _interpolated(conversion: Conversion, node: Node) -> Quantity:
    axes = linear_axes(node)
    if axes is None:
        raise UnsupportedError("RESIZE does not have these positions")
    operand = next(iter(bind(node).values()))
    narrow = conversion.narrow(conversion.of(operand), operand)
    unit = math.prod(axis.numerator for axis in axes)
    made: list[Quantized] = []

    def finish(value: Value) -> Value:
        wide = Quantized(value.node, (narrow.scale[0] / unit,), narrow.zero * unit, narrow.limit * unit)
        made.append(finished(conversion, wide, node))
        return Value(value.builder, made[0].node)

    result = interpolated(Value(conversion.arithmetic.builder, narrow.node), node, axes, finish)
    return replace(made[0], node=result.node)


def _cumulative(conversion: Conversion, node: Node) -> Quantity:
    """Multiplies by a triangular matrix."""
    bound = bind(node)
    narrow = conversion.narrow(conversion.of(bound["self"]), bound["self"])
    x = Value(conversion.arithmetic.builder, narrow.node)
    if not x.rank:
        return narrow
    dim = positive(bound["dim"], x.rank)
    order = [each for each in range(x.rank) if each != dim] + [dim]
    count = x.shape[dim]
    rows = x.permute(*order)
    matrix = torch.ones((1, count, count), dtype=torch.int8).triu().to(narrow.dtype)
    terms = replace(narrow, node=rows.view(1, x.numel // count, count).node)
    ones = Quantized(conversion.arithmetic.constant(matrix), (1.0,), 0, 1)
    result = finished(conversion, product(conversion, terms, ones), node)
    moved = (
        Value(x.builder, result.node)
        .view(*rows.shape)
        .permute(*(order.index(each) for each in range(x.rank)))
    )
    return replace(result, node=moved.node)


REDUCTIONS: Final[Mapping[Any, Convert]] = {
    aten.sum.dim_IntList: _sum(False),
    aten.sum.default: _sum(False),
    aten.mean.dim: _sum(True),
    aten.mean.default: _sum(True),
    aten.amax.default: _extreme,
    aten.amin.default: _extreme,
    aten.max.default: _extreme,
    aten.min.default: _extreme,
    aten.argmax.default: _position,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.avg_pool2d.default: _avg_pool,
    aten.cumsum.default: _cumulative,
    **{
        target: _interpolated
        for packet in (aten.upsample_linear1d, aten.upsample_bilinear2d)
        for target in (packet.default, packet.vec)
    },
}
