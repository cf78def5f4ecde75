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


def _pad(builder: Builder, node: Node) -> Any:
    """Pads at once if the dimensions without padding join to few enough, else one dimension after another."""
    bound = bind(node)
    x, amounts, value = value_of(builder, bound["self"]), bound["pad"], bound["value"] or 0
    if x.rank <= FEW or any(isinstance(each, Node) or each < 0 for each in amounts):
        return None
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    pairs = [*[(0, 0)] * (x.rank - len(pairs)), *pairs]
    shape: list[int] = []
    joined: list[tuple[int, int]] = []
    for size, pair in zip(x.shape, pairs, strict=True):
        if joined and pair == joined[-1] == (0, 0):
            shape[-1] *= size
        else:
            shape.append(size)
            joined.append(pair)
    if len(shape) <= FEW:
        flat = x.view(*shape).pad([amount for pair in joined[::-1] for amount in pair], value)
        return flat.view(*shape_of(node)).node
    for dim, pair in enumerate(pairs):
        if pair != (0, 0):
            flat, place = low_rank(x, dim)
            flat = flat.pad([*[0, 0] * (flat.rank - 1 - place), *pair], value)
            x = flat.view(*x.shape[:dim], flat.shape[place], *x.shape[dim + 1 :])
    return x.node


REWRITES: Final = (
    Rewrite(aten.constant_pad_nd.default, _pad, note="dimensions without padding joined", computes=False),
    Rewrite(aten.cat.default, _cat, computes=False),
    Rewrite(aten.split_with_sizes.default, _split, computes=False),
)
