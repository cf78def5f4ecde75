# SPDX-License-Identifier: Apache-2.0
"""Moves that TOSA lacks."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _flip(builder: Builder, node: Node) -> Node | None:
    """Reverses the second of three dimensions: one, those before it as one, and those after it.

    On Ethos-U55 and U65, Vela reverses only the second and the third last dimension.
    """
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dims = sorted(positive(dim, x.rank) for dim in bound["dims"] if x.rank)
    if x.rank == 3 and dims == [1]:
        return None
    for dim in dims:
        if x.shape[dim] > 1:
            rows = x.view(math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
            x = Value(builder, builder.call(aten.flip.default, rows.node, [1])).view(*x.shape)
    return x.node


REWRITES: Final = (Rewrite(aten.flip.default, _flip, computes=False, note="the second of three dimensions"),)
