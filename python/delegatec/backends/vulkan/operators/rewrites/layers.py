# SPDX-License-Identifier: Apache-2.0
"""Matrix products, convolutions and look-ups in the forms that the runtime has."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import linear
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic, sizes_key

aten = torch.ops.aten

MOST_IMAGES: Final = 32
MOST_MERGED: Final = 1 << 24


def _convolution(builder: Builder, node: Node) -> Node | None:
    """Convolves the images of a batch one by one."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank != 4 or not isinstance(x.shape[0], int) or not 1 < x.shape[0] <= MOST_IMAGES:
        return None
    rest = [bound[name] for name in bound if name != "input"]
    images = [
        builder.call(aten.convolution.default, each.node, *rest) for each in x.split([1] * x.shape[0], 0)
    ]
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
    rows, columns = (length // step for length, step in zip(size, kernel, strict=True))
    if sizes_key((rows * kernel[0], columns * kernel[1])) != sizes_key(size):
        return None
    patches = x.view(batch, channels, rows, kernel[0], columns, kernel[1]).permute(0, 2, 4, 1, 3, 5)
    joined = patches.view(batch, rows * columns, channels * kernel[0] * kernel[1])
    matrix = builder.derived(bound["weight"], weight.detach().flatten(1))
    product = Value(builder, builder.call(aten.linear.default, joined.node, matrix, bound["bias"]))
    return product.view(batch, rows, columns, weight.shape[0]).permute(0, 3, 1, 2).node


def _padded_sequence(builder: Builder, node: Node) -> Node | None:
    """Pads a sequence whose length varies before its convolution."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank != 3 or not is_dynamic(x.shape[2:]) or not any(bound["padding"]) or bound["transposed"]:
        return None
    padded = {**bound, "input": x.pad(list(bound["padding"]) * 2).node, "padding": [0]}
    return builder.call(aten.convolution.default, *padded.values(), val=node.meta["val"])


def _slices(builder: Builder, node: Node) -> list[Node | None] | None:
    """Slices a value whose sizes vary: the runtime does not resize the results of a split."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if not is_dynamic(x.shape):
        return None
    dim = positive(bound["dim"], x.rank)
    start: int = 0
    parts: list[Node | None] = []
    for part in node.meta["val"]:
        parts.append(x.slice(dim, start, start + part.shape[dim]).node)
        start = start + part.shape[dim]
    return parts


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
    return builder.call(aten.convolution.default, *arguments.values(), val=node.meta["val"])


def _second_channel(builder: Builder, node: Node) -> Node | None:
    """Computes a second channel of zeros: the runtime takes a filter of one channel for a depthwise one."""
    bound = bind(node)
    weight = builder.facts.constant(bound["weight"])
    if weight is None or weight.dim() != 4 or weight.shape[:2] != (1, 1) or bound["transposed"]:
        return None
    wide = dict(bound)
    for name in ("weight", "bias") if bound["bias"] is not None else ("weight",):
        value = builder.facts.constant(bound[name])
        if value is None:
            return None
        value = value.detach()
        wide[name] = builder.derived(bound[name], torch.cat([value, torch.zeros_like(value)]))
    both = Value(builder, builder.call(aten.convolution.default, *wide.values()))
    return both.slice(1, 0, 1).node


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
    for place in range(merged):
        wide[:, place, :, place] = blocks[:, place]
    return wide.view(weight.shape[0], merged * inputs, *weight.shape[2:]), groups // merged


def _index_select(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, index = value_of(builder, bound["self"]), value_of(builder, bound["index"])
    if not x.shape:
        return None
    dim = positive(bound["dim"], x.rank)
    ones = [1] * x.rank
    ones[dim] = index.numel
    spread = index.view(*ones).expand(*shape_of(node))
    return builder.call(aten.gather.default, x.node, dim, spread.node, val=node.meta["val"])


def _embedding(builder: Builder, node: Node) -> Node | None:
    """Gathers rows of a table that is not a constant."""
    bound = bind(node)
    if builder.facts.constant(bound["weight"]) is not None:
        return None
    table, indices = value_of(builder, bound["weight"]), value_of(builder, bound["indices"])
    return table.index_select(0, indices.view(indices.numel)).view(*shape_of(node)).node


REWRITES: Final = (
    linear.LINEAR_OF_ROWS,
    linear.LINEAR_BY_MM,
    linear.ADDMM_BY_MM,
    linear.DYNAMIC_MM_BY_BMM,
    Rewrite(aten.convolution.default, _convolution, note="image by image"),
    Rewrite(aten.convolution.default, _patches, note="a product of patches, for a batch that varies"),
    Rewrite(aten.convolution.default, _padded_sequence, note="of a padded sequence whose length varies"),
    Rewrite(aten.split_with_sizes.default, _slices, computes=False),
    Rewrite(
        aten.convolution.default,
        _merged_groups,
        note="with zeros between the channels of groups; an infinity in one makes others NaN",
    ),
    Rewrite(aten.convolution.default, _second_channel, note="with a second channel of zeros"),
    Rewrite(aten.embedding.default, _embedding),
    Rewrite(aten.index_select.default, _index_select, computes=False),
)
