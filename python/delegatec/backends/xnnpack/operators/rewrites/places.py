# SPDX-License-Identifier: Apache-2.0
"""Indexing by a constant, as the choice of elements along a dimension."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.value import table, value_of

aten = torch.ops.aten

_COMPUTED: Final = Refusal("constant", "the index is not one constant: XNNPACK has no lookups")


def _index(builder: Builder, node: Node) -> Node | Refusal:
    """Returns the call; places from the end are counted from the start."""
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    dim, index = given[0]
    places = builder.facts.constant(index)
    if len(given) > 1 or places is None or places.dtype not in (torch.int32, torch.int64):
        return _COMPUTED
    x = value_of(builder, bound["self"])
    size = x.shape[dim]
    chosen = x.index_select(dim, table(builder, torch.where(places < 0, places + size, places).reshape(-1)))
    return (chosen if places.dim() == 1 else chosen.view(*shape_of(node))).node


REWRITES: Final = (
    Rewrite(aten.index.Tensor, _index, computes=False, note="elements at the places of one constant index"),
)
