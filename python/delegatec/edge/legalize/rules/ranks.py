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
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

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


def _softmax(builder: Builder, node: Node) -> Any:
    x = value_of(builder, bind(node)["self"])
    joined, dim = low_rank(x, bind(node)["dim"])
    return None if joined.shape == x.shape else again(builder, node, self=joined.node, dim=dim)


def _batch_norm(builder: Builder, node: Node) -> Any:
    x = value_of(builder, bind(node)["input"])
    if x.rank <= FEW:
        return None
    return again(builder, node, input=x.view(*x.shape[:2], math.prod(x.shape[2:])).node)


def _layer_norm(builder: Builder, node: Node) -> Any:
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    if x.rank <= FEW:
        return None
    parameters = {name: bound[name] and _flat(builder, bound[name]) for name in ("weight", "bias")}
    rows = x.view(x.numel // count, count).node
    return again(builder, node, input=rows, normalized_shape=[count], **parameters)


def _flat(builder: Builder, parameter: Node) -> Node:
    """Returns a parameter as a row; a constant stays one, with all its digits."""
    constant = builder.program.constants.get(parameter.name)
    if constant is None or len(shape_of(parameter)) == 1:
        x = value_of(builder, parameter)
        return x.view(x.numel).node
    return builder.derived(parameter, constant.detach().reshape(-1))


_NOTE: Final = "of more than four dimensions, some joined"

REWRITES: Final = (
    *(Rewrite(target, _softmax, note=_NOTE) for target in (aten._softmax.default, aten._log_softmax.default)),
    Rewrite(aten._native_batch_norm_legit_no_training.default, _batch_norm, note=_NOTE),
    Rewrite(aten.native_layer_norm.default, _layer_norm, note=_NOTE),
)
