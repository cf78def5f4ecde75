# SPDX-License-Identifier: Apache-2.0
"""Extrema with their positions, for targets that have neither.

Positions are those of ATen: of the first of several equal elements, or of the first NaN. They are computed as
the minimum of the positions of the extremum, which does not depend on the target's order of ties.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, read_results
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.indices import positions
from delegatec.edge.legalize.rules.reductions import amax, amin
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def first_at(x: Value, extremum: Value, dim: int) -> Value:
    """Returns the first position of the extremum along a dimension: int32, the dimension is kept with size 1.

    Args:
        x: numbers.
        extremum: the maximum or minimum along the dimension, which is kept; NaN if an element is NaN.
        dim: the dimension.
    """
    found = x.eq(extremum)
    if x.dtype.is_floating_point:  # NaN does not equal anything: only NaN is found then.
        found = found | x.isnan()
    size = x.shape[dim]
    place = positions(x.builder, size, dim, x.rank)
    return amin(found.where(place, size), [dim], keepdim=True).within(0, size - 1)


def _ordered(builder: Builder, node: Node) -> Value:
    x = value_of(builder, bind(node)["self"])
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _position(largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        x, dim = _ordered(builder, node), bind(node)["dim"]
        if dim is None or not x.shape:
            x, dim = x.view(x.numel), 0
        dim = positive(dim, x.rank)
        extremum = (amax if largest else amin)(x, [dim], True)
        return first_at(x, extremum, dim).view(*node.meta["val"].shape).to(torch.int64).node

    return rule


def _with_position(largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> list[Node | None]:
        x, source = _ordered(builder, node), bind(node)["self"]
        shape = tuple(node.meta["val"][0].shape)
        x = x if x.shape else x.view(1)
        dim = positive(bind(node)["dim"], x.rank)
        extremum = (amax if largest else amin)(x, [dim], True)
        result = extremum.view(*shape).to(dtype_of(source)).node
        if 1 not in read_results(node):
            return [result, None]
        return [result, first_at(x, extremum, dim).view(*shape).to(torch.int64).node]

    return rule


REWRITES: Final = tuple(
    Rewrite(target, rule, note="minimum of the positions of the extremum")
    for target, rule in (
        (aten.argmax.default, _position(largest=True)),
        (aten.argmin.default, _position(largest=False)),
        (aten.max.dim, _with_position(largest=True)),
        (aten.min.dim, _with_position(largest=False)),
    )
)
