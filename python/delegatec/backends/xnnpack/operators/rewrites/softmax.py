# SPDX-License-Identifier: Apache-2.0
"""Softmax along any dimension, as one of rows between permutations."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _softmax(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if x.rank < 2:
        return None
    order = [*range(x.rank)]
    order.append(order.pop(positive(bound["dim"], x.rank)))
    rows = x.permute(*order)
    value = builder.empty(rows.shape, node.meta["val"].dtype)
    result = builder.call(aten._softmax.default, rows.node, x.rank - 1, bound["half_to_float"], val=value)
    return Value(builder, result).permute(*(order.index(dim) for dim in range(x.rank))).node


REWRITES: Final = (Rewrite(aten._softmax.default, _softmax, note="the dimension is moved to the end"),)
