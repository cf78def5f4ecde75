# SPDX-License-Identifier: Apache-2.0
"""Convolutions as channels-last ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import (
    channels_first,
    channels_last,
    emit,
    fitted,
    in_images,
)
from delegatec.edge.legalize.constraints import STATIC_SETTINGS, operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, cat, value_of

aten = torch.ops.aten

FLOATS: Final = frozenset(
    {torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}
)
_ACCUMULATORS: Final = {torch.int8: torch.int32, torch.int16: torch.int64}


@dataclass(frozen=True)
class Convolution:
    """Arguments of `aten.convolution`, and the zero points of integers.

    Attributes:
        stride: per spatial dimension, of which there are one to three.
        padding: per spatial dimension.
        dilation: per spatial dimension.
        transposed: whether it is a transposed convolution.
        output_padding: per spatial dimension.
        groups: number of groups.
        x_zero: zero point of the images.
        weight_zero: zero point of the weight.
    """

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int
    x_zero: int = 0
    weight_zero: int = 0

    @staticmethod
    def of(node: Node) -> Convolution:
        """Returns the arguments of a call."""
        bound = bind(node)
        spatial = len(shape_of(bound["weight"])) - 2
        names = ("stride", "padding", "dilation", "output_padding")
        stride, padding, dilation, output_padding = (each(bound[name], spatial) for name in names)
        return Convolution(stride, padding, dilation, bound["transposed"], output_padding, bound["groups"])

    def along_rows(self) -> Convolution:
        """Returns that of images with one row for a convolution in one dimension."""
        return replace(
            self,
            stride=[1, *self.stride],
            padding=[0, *self.padding],
            dilation=[1, *self.dilation],
            output_padding=[0, *self.output_padding],
        )


@dataclass(frozen=True)
class Layers:
    """The convolutions of a target.

    Attributes:
        has_rows: whether it convolves rows; others become images of one row.
        has_groups: whether it convolves rows and images in groups of any size.
        divides_exactly: whether windows must end with the padded image.
    """

    has_rows: bool = False
    has_groups: bool = False
    divides_exactly: bool = True


_FEW: Final = Layers()

Finish = Callable[[Value, int], Value]
"""Returns another value for the accumulators of output channels, from the given one on."""


def convolve(
    x: Value,
    weight: Value,
    bias: Value | None,
    call: Convolution,
    finish: Finish = lambda found, _: found,
    layers: Layers = _FEW,
) -> Value | None:
    """Convolves by channels-last operators.

    Args:
        x: [N, C, ...] with one to three spatial dimensions.
        weight: in ATen's order of dimensions.
        bias: of the dtype of the accumulators.
        call: the other arguments.
        finish: is applied to accumulators [N, ..., O], before they are moved.
        layers: the convolutions of the target.

    Returns:
        The finished accumulators, [N, O, ...]; None if there is no operator for it.
    """
    spatial = weight.rank - 2
    is_depthwise = call.groups > 1 and x.shape[1] == call.groups
    if call.transposed and (spatial == 3 or set(call.dilation) != {1} or is_depthwise):
        return None
    in_rows = spatial == 1 and layers.has_rows
    of_images = call.along_rows() if spatial == 1 and not in_rows else call
    one_by_one = call.transposed or not layers.has_groups

    def convolved(images: Value) -> Value:
        if call.groups > 1 and (spatial == 3 or (one_by_one and not is_depthwise)):
            return _in_groups(images, weight, bias, of_images, finish, layers)
        return _convolve(images, _arranged(weight, of_images), bias, of_images, finish, 0, layers)

    return channels_first(convolved(channels_last(x))) if in_rows else in_images(x, convolved)


def _arranged(weight: Value, call: Convolution, group: int | None = None) -> Value:
    """Returns the weight, or that of one group, outputs first and inputs last; one dimension as a row."""
    dims = [1, *range(2, weight.rank), 0] if call.transposed else [0, *range(2, weight.rank), 1]
    start, size = 0, weight.shape[0]
    if group is not None:
        size //= call.groups
        start = group * size
    shape = [size if dim == 0 else weight.shape[dim] for dim in dims]
    if weight.rank == 3 and len(call.stride) == 2:
        shape.insert(1, 1)
    builder = weight.builder
    constant = builder.facts.constant(weight.node)
    if constant is not None:
        part = constant.detach() if group is None else constant.detach().narrow(0, start, size)
        moved = [dim for dim in dims if part.shape[dim] > 1]
        # A view of a scaled tensor is not computed before it is written.
        part = part.view(shape) if moved == sorted(moved) else part.permute(dims).reshape(shape)
        return Value(builder, builder.derived(weight.node, part))
    return weight.slice(0, start, start + size).permute(*dims).view(*shape)


def _in_groups(
    x: Value, weight: Value, bias: Value | None, call: Convolution, finish: Finish, layers: Layers
) -> Value:
    parts = []
    channels = x.shape[-1] // call.groups
    outputs = weight.shape[1] if call.transposed else weight.shape[0] // call.groups
    for group in range(call.groups):
        part = x.slice(x.rank - 1, group * channels, (group + 1) * channels)
        own = None if bias is None else _part(bias, group * outputs, (group + 1) * outputs)
        alone, start = replace(call, groups=1), group * outputs
        parts.append(_convolve(part, _arranged(weight, call, group), own, alone, finish, start, layers))
    return cat(parts, x.rank - 1)


def _part(bias: Value, start: int, end: int) -> Value:
    constant = bias.builder.facts.constant(bias.node)
    if constant is None:
        return bias.slice(0, start, end)
    return Value(bias.builder, bias.builder.derived(bias.node, constant.detach()[start:end]))


def _convolve(
    x: Value,
    weight: Value,
    bias: Value | None,
    call: Convolution,
    finish: Finish,
    start: int,
    layers: Layers,
) -> Value:
    if call.transposed:
        return _transposed(x, weight, bias, call, finish, start)
    padding: list[int] = []
    outputs = []
    for dim, (stride, before, dilation) in enumerate(
        zip(call.stride, call.padding, call.dilation, strict=True), 1
    ):
        reach = dilation * (weight.shape[dim] - 1) + 1
        outputs.append((x.shape[dim] + 2 * before - reach) // stride + 1)
        if layers.divides_exactly:
            x, after = fitted(x, dim, outputs[-1], reach, stride, before)
        else:
            after = before
        padding += (before, after)
    arguments: list[Any] = [weight, bias, list(call.stride), padding, list(call.dilation)]
    operator = NHWC.conv3d.default
    if x.rank < 5:
        operator = NHWC.conv1d.default if x.rank == 3 else NHWC.conv2d.default
        arguments.append(call.groups)
    shape = (x.shape[0], *outputs, weight.shape[0])
    result = emit(operator, x, *arguments, *_zeros(call), shape=shape, dtype=_accumulator(x))
    return finish(result, start)


def _transposed(
    x: Value, weight: Value, bias: Value | None, call: Convolution, finish: Finish, start: int
) -> Value:
    padding: list[int] = []
    sizes, crops = [], []
    geometry = zip(call.stride, call.padding, call.output_padding, strict=True)
    for dim, (stride, removed, added) in enumerate(geometry, 1):
        # the operator removes less than the kernel on each side
        most = weight.shape[dim] - 1
        before, after = max(-removed, -most), max(added - removed, -most)
        padding += (before, after)
        sizes.append((x.shape[dim] - 1) * stride + before + after + weight.shape[dim])
        crops.append((before + removed, after + removed - added))
    shape = (x.shape[0], *sizes, weight.shape[0])
    arguments = (weight, bias, list(call.stride), padding, *_zeros(call))
    operator = NHWC.conv_transpose1d.default if x.rank == 3 else NHWC.conv_transpose2d.default
    result = emit(operator, x, *arguments, shape=shape, dtype=_accumulator(x))
    result = finish(result, start)
    for dim, (first, last) in enumerate(crops, 1):
        result = result.slice(dim, first, result.shape[dim] - last)
    return result


def _zeros(call: Convolution) -> list[int]:
    zeros = [call.x_zero, call.weight_zero]
    return zeros if any(zeros) else []


def _accumulator(x: Value) -> torch.dtype:
    return _ACCUMULATORS.get(x.dtype, x.dtype)


def rewrite_for(layers: Layers, note: str) -> Rewrite:
    """Returns the rewrite of a convolution to those of a target."""

    def rule(builder: Builder, node: Node) -> Node | None:
        bound = bind(node)
        x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
        bias = None if bound["bias"] is None else value_of(builder, bound["bias"])
        result = convolve(x, weight, bias, Convolution.of(node), layers=layers)
        return None if result is None else result.node

    constraint = operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")
    constraints = (constraint, STATIC_SETTINGS)
    return Rewrite(aten.convolution.default, rule, constraints, note=note, preserved=True)


_NOTE: Final = "channels last; one dimension as images of one row, groups that are not depthwise one by one"
REWRITES: Final = (rewrite_for(_FEW, _NOTE),)
