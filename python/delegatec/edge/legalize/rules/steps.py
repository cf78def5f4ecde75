# SPDX-License-Identifier: Apache-2.0
"""Slices with steps, for targets that have only those of neighbors."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _steps(builder: Builder, node: Node) -> Node | None:
    """Takes the first of each group of `step` elements."""
    bound = bind(node)
    x, step = value_of(builder, bound["self"]), bound["step"]
    dim = positive(bound["dim"], x.rank)
    size, count = x.shape[dim], shape_of(node)[dim]
    if step == 1:
        return None
    start, _, _ = slice(bound["start"], bound["end"], step).indices(size)
    if count == 1:
        return x.slice(dim, start, start + 1).node
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    x = x.view(before, size, after)
    # the groups end before the last element, if there are enough elements
    first = max(0, min(start, size - count * step))
    missing = first + count * step - size
    if missing > 0:
        x = x.pad([0, 0, 0, missing])
    groups = x.slice(1, first, first + count * step).view(before, count, step, after)
    return groups.slice(2, start - first, start - first + 1).view(*shape_of(node)).node


REWRITES: Final = (Rewrite(aten.slice.Tensor, _steps, computes=False, note="steps as slices of groups"),)
