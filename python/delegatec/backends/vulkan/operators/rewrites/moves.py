# SPDX-License-Identifier: Apache-2.0
"""Movements of elements of more than four dimensions, some of them joined."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.ranks import FEW, again, low_rank
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _cat(builder: Builder, node: Node) -> Any:
    if len(shape_of(node)) <= FEW:
        return None
    bound = bind(node)
    parts = [low_rank(value_of(builder, each), bound["dim"]) for each in bound["tensors"]]
    return again(builder, node, tensors=[part.node for part, _ in parts], dim=parts[0][1])


def _split(builder: Builder, node: Node) -> Any:
    x = value_of(builder, bind(node)["self"])
    if x.rank <= FEW:
        return None
    joined, dim = low_rank(x, bind(node)["dim"])
    return again(builder, node, self=joined.node, dim=dim)


REWRITES: Final = (
    Rewrite(aten.cat.default, _cat, computes=False),
    Rewrite(aten.split_with_sizes.default, _split, computes=False),
)
