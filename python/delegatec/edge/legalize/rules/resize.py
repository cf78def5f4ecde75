# SPDX-License-Identifier: Apache-2.0
"""Resizing: its dimensions, and the nearest elements."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.value import table, value_of

aten = torch.ops.aten

NEAREST: Final = {
    aten.upsample_nearest1d.default: (aten.upsample_nearest2d, aten.upsample_nearest3d),
    aten._upsample_nearest_exact1d.default: (
        aten._upsample_nearest_exact2d,
        aten._upsample_nearest_exact3d,
    ),
}
"""Operator for one dimension -> those for more, which select elements as it does in each."""


class Dim(NamedTuple):
    """One dimension: its size, that of the result, and the factor, if the program specifies it.

    Positions are computed in `dtype`: float64 for values of that dtype, float32 for others.
    """

    size: int
    outputs: int
    factor: float | None
    dtype: torch.dtype


def operand_of(node: Node) -> Node:
    """Returns the operand, `self` of some overloads and `input` of others."""
    source: Node = next(iter(bind(node).values()))
    return source


def factors_of(node: Node) -> list[float | None]:
    """Returns the factor along each spatial dimension, None if only the size of the result is specified."""
    bound, spatial = bind(node), len(shape_of(node)) - 2
    names = ("scales_d", "scales_h", "scales_w")[-spatial:]
    return list(bound.get("scale_factors") or [bound.get(name, bound.get("scales")) for name in names])


def dims_of(node: Node) -> list[Dim]:
    """Returns the spatial dimensions."""
    sizes = (shape_of(operand_of(node))[2:], shape_of(node)[2:])
    dtype = torch.promote_types(dtype_of(node), torch.float32)
    return [Dim(*each, dtype) for each in zip(*sizes, factors_of(node), strict=True)]


def nearest_elements(target: OpOverload, dim: Dim) -> torch.Tensor:
    """Returns the index of the source element of each result, int64, as ATen rounds.

    Args:
        target: the operator for one dimension.
        dim: the dimension.
    """
    coordinates = torch.arange(dim.size, dtype=torch.float64).view(1, 1, -1)
    chosen: torch.Tensor = target(coordinates, [dim.outputs], dim.factor).view(-1).to(torch.int64)
    return chosen


def as_image(target: OpOverload) -> Rule:
    """Returns a rule that interpolates a row as an image."""

    def rule(b: Builder, node: Node) -> Node:
        a = bind(node)
        x = b.call(aten.unsqueeze.default, a.pop("input"), 2)
        sizes, scales = a["output_size"], a["scale_factors"]
        a["output_size"] = None if sizes is None else [1, *sizes]
        a["scale_factors"] = None if scales is None else [1.0, *scales]
        batch, channels, width = shape_of(node)
        val = b.empty([batch, channels, 1, width], dtype_of(node))
        return b.call(aten.squeeze.dims, b.call(target, x, *a.values(), val=val), [2], val=node.meta["val"])

    return rule


def _nearest(target: OpOverload) -> Rule:
    """Returns the rule; `target`, the operator for one dimension, selects the elements by ATen's rounding."""

    def rule(builder: Builder, node: Node) -> Node:
        x, repeats = value_of(builder, operand_of(node)), []
        for dim, axis in enumerate(dims_of(node), 2):
            elements = nearest_elements(target, axis).to(torch.int32)
            output, times = torch.arange(axis.outputs), axis.outputs // axis.size
            stride = int(elements[1]) if axis.outputs > 1 else 1
            repeats.append(times if times and torch.equal(elements, output // times) else 1)
            if stride > 0 and torch.equal(elements, output * stride):
                x = x.slice(dim, 0, int(elements[-1]) + 1, stride)
            elif repeats[-1] == 1:
                x = x.index_select(dim, table(builder, elements))
        if max(repeats) > 1:
            sizes, outer = x.shape[2:], math.prod(x.shape[:2])
            apart = (size for pair in zip(sizes, (1,) * len(sizes), strict=True) for size in pair)
            wide = (size for pair in zip(sizes, repeats, strict=True) for size in pair)
            x = x.view(outer, *apart).expand(outer, *wide).view(*shape_of(node))
        return x.node

    return rule


RULES: Final[RuleTable] = {aten.upsample_nearest1d.vec: as_image(aten.upsample_nearest2d.vec)}

REWRITES: Final = tuple(
    Rewrite(
        packet.vec,
        _nearest(in_one_dimension),
        note="by repetition for integer factors, otherwise by a gather, with ATen's rounding",
        computes=False,
        preserved=True,
    )
    for in_one_dimension, packets in NEAREST.items()
    for packet in packets
)
