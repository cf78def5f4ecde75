# SPDX-License-Identifier: Apache-2.0
"""Convolutions: as `aten.convolution`, in three dimensions by two, and for targets that lack some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import STATIC_SETTINGS, operand_dtypes, rank_of
from delegatec.edge.legalize.rule import Function, Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules import dynamic
from delegatec.edge.legalize.rules.padding import padded
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.value import Value, cat, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_CONVOLUTION: Final = aten.convolution.default

# ---- normal form -----------------------------------------------------------------------------------------


def _core(spatial: int, transposed: bool) -> Rule:
    def rule(b: Builder, node: Node) -> Node | None:
        arguments = bind(node)
        x = arguments["input"]
        if len(shape_of(x)) != spatial + 2:
            return None

        def sizes(name: str, default: int) -> list[Any]:
            return each(arguments.get(name), spatial, [default])

        return b.call(
            _CONVOLUTION,
            x,
            arguments["weight"],
            arguments["bias"],
            sizes("stride", 1),
            sizes("padding", 0),
            sizes("dilation", 1),
            transposed,
            sizes("output_padding", 0),
            arguments["groups"],
            val=node.meta["val"],
        )

    return rule


# ---- three dimensions: the depth becomes channels ----------------------------------------------------------


def _convolution_3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    stride, padding, dilation, output_padding = (
        each(values, 3) for values in (stride, padding, dilation, output_padding)
    )
    taps, reach = weight.shape[2], dilation[0] * (weight.shape[2] - 1)
    depth_stride = stride[0]
    before = after = padding[0]
    if transposed:
        # equals a convolution of the dilated input with the reversed kernel
        x = _spread(x, stride[0])
        before, after, depth_stride = reach - padding[0], reach - padding[0] + output_padding[0], 1
        weight = weight.flip(2)
    # a negative amount crops
    x = dynamic.padded(x, 2, max(before, 0), max(after, 0))
    x = x.narrow(2, max(-before, 0), x.shape[2] - max(-before, 0) - max(-after, 0))
    batch, channels, depth, height, width = x.shape
    # torch cannot prove that strided slices of a dynamic size have one size: all outputs, then some of them
    skipped = 1 if isinstance(depth, int) else depth_stride
    depth_stride = depth_stride // skipped
    outputs = (depth - reach - 1) // depth_stride + 1
    # [N, C, taps, outputs, H, W]
    starts = [tap * dilation[0] for tap in range(taps)]
    windows = torch.stack(
        [x[:, :, start : start + (outputs - 1) * depth_stride + 1 : depth_stride] for start in starts],
        2,
    )
    images = windows.permute(0, 3, 1, 2, 4, 5).reshape(batch * outputs, channels * taps, height, width)
    if transposed:
        kernel = weight.permute(0, 2, 1, 3, 4)
        kernel = kernel.reshape(channels * taps, weight.shape[1], *weight.shape[3:])
    else:
        kernel = weight.reshape(weight.shape[0], weight.shape[1] * taps, *weight.shape[3:])
    result = _CONVOLUTION(
        *(images, kernel, bias, stride[1:], padding[1:], dilation[1:], transposed, output_padding[1:], groups)
    )
    planes = result.reshape(batch, outputs, *result.shape[1:])
    if skipped > 1:
        planes = planes.index_select(1, torch.arange(0, outputs, skipped))
    found: Tensor = planes.permute(0, 2, 1, 3, 4)
    return found


def _spread(x: Tensor, stride: int) -> Tensor:
    """Inserts zeros between the elements of dimension 2."""
    if stride == 1:
        return x
    size = x.shape[2]
    apart = dynamic.padded(x.unsqueeze(3), 3, 0, stride - 1)
    return apart.reshape(*x.shape[:2], size * stride, *x.shape[3:]).narrow(2, 0, (size - 1) * stride + 1)


def _of_three_dimensions(_: Builder, node: Node) -> Function | None:
    return _convolution_3d if len(shape_of(node)) == 5 else None


# ---- geometry --------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Geometry of a convolution along one dimension; a negative padding removes elements."""

    stride: int
    dilation: int
    before: int
    after: int


def axes_of(node: Node) -> list[Axis]:
    """Returns the geometry along each spatial dimension."""
    bound = bind(node)
    spatial = len(shape_of(bound["weight"])) - 2

    sizes = zip(*(each(bound[name], spatial) for name in ("stride", "dilation", "padding")), strict=True)
    return [Axis(stride, dilation, padding, padding) for stride, dilation, padding in sizes]


def convolve(x: Value, weight: Value, axes: Sequence[Axis], groups: int, bias: Node | None = None) -> Value:
    """Convolves; other padding than the same amount on both sides is a separate call."""
    padding = []
    for dim, axis in enumerate(axes, 2):
        is_equal = axis.before == axis.after >= 0
        padding.append(axis.before if is_equal else 0)
        x = x if is_equal else padded(x, dim, axis.before, axis.after)
    outputs = [weight.shape[0]]
    for dim, axis in enumerate(axes, 2):
        reach = axis.dilation * (weight.shape[dim] - 1) + 1
        outputs.append((x.shape[dim] + 2 * padding[dim - 2] - reach) // axis.stride + 1)
    strides, dilations = ([getattr(axis, name) for axis in axes] for name in ("stride", "dilation"))
    result = x.builder.call(
        _CONVOLUTION,
        *(x.node, weight.node, bias, strides, padding, dilations, False, [0] * len(axes), groups),
        val=x.builder.empty((x.shape[0], *outputs), x.dtype),
    )
    return Value(x.builder, result)


def zero_padding(node: Node) -> list[tuple[int, int]] | None:
    """Returns the zeros before and after each spatial dimension, if a node only adds such; else None."""
    if node.target is not aten.constant_pad_nd.default:
        return None
    bound, rank = bind(node), len(shape_of(node))
    pairs = list(zip(bound["pad"][::2], bound["pad"][1::2], strict=True))[::-1]
    if bound["value"] or len(pairs) > rank - 2 or min(bound["pad"], default=0) < 0:
        return None
    return [(0, 0)] * (rank - 2 - len(pairs)) + pairs


# ---- one dimension ---------------------------------------------------------------------------------------


def _as_image(builder: Builder, node: Node) -> Node | None:
    """Convolves a row as an image of one row; its padding by a separate call stays next to it."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    if weight.rank != 3 or bound["transposed"]:
        return None
    pads = zero_padding(x.node)
    if pads is not None:
        x = value_of(builder, x.node.all_input_nodes[0])
    x, weight = (each.view(*each.shape[:2], 1, each.shape[2]) for each in (x, weight))
    x = x if pads is None else padded(x, 3, *pads[-1])
    (axis,) = axes_of(node)
    result = convolve(x, weight, [Axis(1, 1, 0, 0), axis], bound["groups"], bound["bias"])
    return result.view(*shape_of(node)).node


def _padded_sequence(builder: Builder, node: Node) -> Node | None:
    """Pads a sequence whose length varies before its convolution."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank != 3 or not is_dynamic(x.shape[2:]) or not any(bound["padding"]) or bound["transposed"]:
        return None
    padded = {**bound, "input": x.pad(list(bound["padding"]) * 2).node, "padding": [0]}
    return builder.call(_CONVOLUTION, *padded.values(), val=node.meta["val"])


def _groups_one_by_one(builder: Builder, node: Node) -> Node | None:
    """Computes the groups of a transposed convolution of volumes."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    count = bound["groups"]
    if not bound["transposed"] or weight.rank != 5 or count == 1:
        return None
    inputs, outputs = weight.shape[0] // count, weight.shape[1]
    parts = []
    for index in range(count):
        rows = index * inputs, (index + 1) * inputs
        bias = None
        if bound["bias"] is not None:
            bias = value_of(builder, bound["bias"]).slice(0, index * outputs, (index + 1) * outputs).node
        own = {"input": x.slice(1, *rows).node, "weight": weight.slice(0, *rows).node, "bias": bias}
        part = builder.call(_CONVOLUTION, *{**bound, **own, "groups": 1}.values())
        parts.append(Value(builder, part))
    return cat(parts, 1).node


RULES: Final[RuleTable] = {
    _CONVOLUTION: _of_three_dimensions,
    aten.conv1d.default: _core(1, False),
    aten.conv2d.default: _core(2, False),
    aten.conv3d.default: _core(3, False),
    aten.conv_transpose1d.default: _core(1, True),
    aten.conv_transpose2d.input: _core(2, True),
    aten.conv_transpose3d.input: _core(3, True),
}

ONE_OR_TWO_DIMENSIONS: Final = (
    operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),
    rank_of("weight", (3, 4), "it has one or two spatial dimensions."),
    STATIC_SETTINGS,
)

REWRITES: Final = (
    Rewrite(_CONVOLUTION, _as_image, ONE_OR_TWO_DIMENSIONS, note="a row as an image of one row"),
)

OF_PADDED_SEQUENCE: Final = Rewrite(
    _CONVOLUTION, _padded_sequence, note="of a padded sequence of dynamic length"
)
TRANSPOSED_GROUPS: Final = Rewrite(
    _CONVOLUTION, _groups_one_by_one, note="transposed groups of volumes one by one"
)
