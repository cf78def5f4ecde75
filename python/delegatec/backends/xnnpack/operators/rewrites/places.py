# SPDX-License-Identifier: Apache-2.0
"""Indexing by constants, as the choice of elements along a dimension."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.value import table, value_of

aten = torch.ops.aten

_COMPUTED: Final = Refusal("constant", "an index is not a constant: XNNPACK has no lookups")
_VARYING: Final = Refusal("dynamic-shape", "the size of an indexed dimension varies")
_APART: Final = Refusal("argument", "the indexed dimensions are not adjacent")


def _index(builder: Builder, node: Node) -> Node | Refusal:
    """Returns the call; adjacent dimensions are one, and places from the end are counted from the start."""
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    dims, tables = [dim for dim, _ in given], [builder.facts.constant(index) for _, index in given]
    if any(each is None or each.dtype not in (torch.int32, torch.int64) for each in tables):
        return _COMPUTED
    if dims != list(range(dims[0], dims[-1] + 1)):
        return _APART
    x = value_of(builder, bound["self"])
    if not all(isinstance(x.shape[dim], int) for dim in dims):
        return _VARYING
    places = torch.tensor(0)
    for dim, each in zip(dims, tables, strict=True):
        assert each is not None
        places = places * x.shape[dim] + torch.where(each < 0, each + x.shape[dim], each)
    first, end = dims[0], dims[-1] + 1
    x = x.view(*x.shape[:first], math.prod(x.shape[first:end]), *x.shape[end:])
    chosen = x.index_select(first, table(builder, places.reshape(-1)))
    return (chosen if places.dim() == 1 else chosen.view(*shape_of(node))).node


REWRITES: Final = (
    Rewrite(
        aten.index.Tensor, _index, computes=False, note="elements at constant places of adjacent dimensions"
    ),
)
