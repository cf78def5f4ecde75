# SPDX-License-Identifier: Apache-2.0
"""Calls on many dimensions, as calls on few, for targets that limit them."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

FEW: Final = 4
"""Dimensions that a target supports at least."""


def low_rank(x: Value, dim: int) -> tuple[Value, int]:
    """Returns a value of one to four dimensions, those before and after one of them joined, and that one."""
    if not x.shape:
        return x.view(1), 0
    dim = positive(dim, x.rank)
    if x.rank <= FEW:
        return x, dim
    after = math.prod(x.shape[dim + 1 :])
    return x.view(math.prod(x.shape[:dim]), x.shape[dim], *([after] if after > 1 else [])), 1


def again(builder: Builder, node: Node, **arguments: Any) -> Any:
    """Repeats a call with other arguments, and views its results in the shapes of the original ones."""
    assert isinstance(node.target, OpOverload)
    given = {**bind(node), **arguments}
    keywords = {each.name: given.pop(each.name) for each in node.target._schema.arguments if each.kwarg_only}
    results = builder.call(node.target, *given.values(), **keywords)
    if isinstance(node.meta["val"], torch.Tensor):
        return Value(builder, results).view(*shape_of(node)).node
    read = read_results(node)
    return [
        Value(builder, builder.call(operator.getitem, results, index)).view(*value.shape).node
        if index in read
        else None
        for index, value in enumerate(node.meta["val"])
    ]
