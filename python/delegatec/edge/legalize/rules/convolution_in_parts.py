# SPDX-License-Identifier: Apache-2.0
"""Convolutions of parts of a kernel or a batch, as products of patches, and of merged groups."""

from __future__ import annotations

from functools import reduce
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.convolution import ONE_OR_TWO_DIMENSIONS, axes_of, convolve
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_CONVOLUTION: Final = aten.convolution.default
MOST_TAPS: Final = 255
"""Longest kernel in a dimension."""
MOST_IMAGES: Final = 32
"""Images of a batch that are convolved one by one."""
MOST_MERGED: Final = 1 << 24
"""Elements of a weight whose groups are merged."""


def _in_parts(builder: Builder, node: Node) -> Node | None:
    """Adds the convolutions with the parts of a long kernel."""
    bound, axes, result_shape = bind(node), axes_of(node), shape_of(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    long = [dim for dim in range(2, weight.rank) if weight.shape[dim] > MOST_TAPS]
    if not long or bound["transposed"]:
        return None
    dim, axis = long[0], axes[long[0] - 2]
    # The size that overflows grows with the batch as well.
    most = max(MOST_TAPS // x.shape[0], 16)
    parts: list[Value] = []
    for first in range(0, weight.shape[dim], most):
        last = min(first + most, weight.shape[dim])
        begin = first * axis.dilation - axis.before
        end = begin + (result_shape[dim] - 1) * axis.stride + axis.dilation * (last - first - 1) + 1
        moved = [*axes]
        moved[dim - 2] = axis._replace(before=-begin, after=end - x.shape[dim])
        bias = None if parts else bound["bias"]
        parts.append(convolve(x, weight.slice(dim, first, last), moved, bound["groups"], bias))
    return reduce(Value.__add__, parts).node


def _image_by_image(builder: Builder, node: Node) -> Node | None:
    """Convolves the images of a batch one by one."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank != 4 or not isinstance(x.shape[0], int) or not 1 < x.shape[0] <= MOST_IMAGES:
        return None
    rest = [bound[name] for name in bound if name != "input"]
    images = [builder.call(_CONVOLUTION, each.node, *rest) for each in x.split([1] * x.shape[0], 0)]
    return builder.call(aten.cat.default, images, 0, val=node.meta["val"])


def _patches(builder: Builder, node: Node) -> Node | None:
    """Multiplies patches, which do not overlap, by the weight."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), builder.facts.constant(bound["weight"])
    if weight is None or x.rank != 4 or bound["groups"] != 1 or bound["transposed"] or any(bound["padding"]):
        return None
    kernel = weight.shape[2:]
    if list(bound["stride"]) != list(kernel) or set(bound["dilation"]) != {1}:
        return None
    batch, channels, *size = x.shape
    rows, columns = (length // extent for length, extent in zip(size, kernel, strict=True))
    if sizes_key((rows * kernel[0], columns * kernel[1])) != sizes_key(size):
        return None
    patches = x.view(batch, channels, rows, kernel[0], columns, kernel[1]).permute(0, 2, 4, 1, 3, 5)
    joined = patches.view(batch, rows * columns, channels * kernel[0] * kernel[1])
    matrix = builder.derived(bound["weight"], weight.detach().flatten(1))
    product = Value(builder, builder.call(aten.linear.default, joined.node, matrix, bound["bias"]))
    return product.view(batch, rows, columns, weight.shape[0]).permute(0, 3, 1, 2).node


def _merged_groups(builder: Builder, node: Node) -> Node | None:
    """Merges groups until they have multiples of four channels; the weights between them are zero."""
    bound = bind(node)
    weight = builder.facts.constant(bound["weight"])
    groups = bound["groups"]
    if weight is None or groups == 1 or not isinstance(groups, int) or bound["transposed"]:
        return None
    found = merge_groups(weight.detach(), groups)
    if found is None:
        return None
    wide, groups = found
    arguments = {**bound, "weight": builder.derived(bound["weight"], wide), "groups": groups}
    return builder.call(_CONVOLUTION, *arguments.values(), val=node.meta["val"])


def merge_groups(weight: torch.Tensor, groups: int) -> tuple[torch.Tensor, int] | None:
    """Returns the weight of a convolution with fewer groups, of multiples of four channels, and their number.

    None if it is too large.

    Args:
        weight: (results, operands per group, ...).
        groups: more than one.
    """
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    counts = [count for count in range(2, groups + 1) if groups % count == 0]
    is_pointwise = set(weight.shape[2:]) == {1}
    merged = next((n for n in counts if n * inputs % 4 == n * outputs % 4 == 0 and not is_pointwise), groups)
    if merged * weight.numel() > MOST_MERGED:
        return None
    blocks = weight.view(groups // merged, merged, outputs, inputs, *weight.shape[2:])
    wide = weight.new_zeros(groups // merged, merged, outputs, merged, inputs, *weight.shape[2:])
    for index in range(merged):
        wide[:, index, :, index] = blocks[:, index]
    return wide.view(weight.shape[0], merged * inputs, *weight.shape[2:]), groups // merged


REWRITES: Final = (
    Rewrite(
        _CONVOLUTION,
        _in_parts,
        ONE_OR_TWO_DIMENSIONS,
        note="a long kernel as a sum of convolutions with parts of it",
    ),
)

IMAGE_BY_IMAGE: Final = Rewrite(_CONVOLUTION, _image_by_image, note="image by image")
OF_PATCHES: Final = Rewrite(_CONVOLUTION, _patches, note="a product of patches, for a dynamic batch size")
WITH_MERGED_GROUPS: Final = Rewrite(
    _CONVOLUTION,
    _merged_groups,
    note="as a dense convolution with a block-diagonal weight; an infinity in one group makes NaN in others",
)
