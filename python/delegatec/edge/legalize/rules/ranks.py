# SPDX-License-Identifier: Apache-2.0
"""Calls on many dimensions, as calls on few, for targets that limit them."""

from __future__ import annotations

import math
import operator
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.nodes import dtype_of, positive, read_results, shape_of

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


def _softmax(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    joined, dim = low_rank(x, bound["dim"])
    if joined.shape == x.shape:
        return None
    result = builder.call(
        node.target,  # type: ignore[arg-type]
        *(joined.node, dim, bound["half_to_float"]),
        val=builder.empty(joined.shape, dtype_of(node)),
    )
    return Value(builder, result).view(*x.shape).node


def _batch_norm(builder: Builder, node: Node) -> list[Node | None] | None:
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank <= FEW:
        return None
    return _normalized(builder, node, x.view(*x.shape[:2], math.prod(x.shape[2:])))


def _layer_norm(builder: Builder, node: Node) -> list[Node | None] | None:
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    if x.rank <= FEW:
        return None
    rows = x.view(x.numel // count, count)
    parameters = {name: bound[name] and _flat(builder, bound[name]) for name in ("weight", "bias")}
    return _normalized(builder, node, rows, normalized_shape=[count], **parameters)


def _flat(builder: Builder, parameter: Node) -> Node:
    """Returns a parameter as a row; a constant stays one, with all its digits."""
    constant = builder.program.constants.get(parameter.name)
    if constant is None or len(shape_of(parameter)) == 1:
        x = value_of(builder, parameter)
        return x.view(x.numel).node
    return builder.derived(parameter, constant.detach().reshape(-1))


def _normalized(builder: Builder, node: Node, x: Value, **arguments: object) -> list[Node | None]:
    bound = {**bind(node), "input": x.node, **arguments}
    results = builder.call(node.target, *bound.values())  # type: ignore[arg-type]
    read = read_results(node)
    return [
        Value(builder, builder.call(operator.getitem, results, index)).view(*value.shape).node
        if index in read
        else None
        for index, value in enumerate(node.meta["val"])
    ]


_NOTE: Final = "of more than four dimensions, some joined"

REWRITES: Final = tuple(
    Rewrite(target, rule, note=_NOTE)
    for rule, targets in (
        (_softmax, (aten._softmax.default, aten._log_softmax.default)),
        (_batch_norm, (aten._native_batch_norm_legit_no_training.default,)),
        (_layer_norm, (aten.native_layer_norm.default,)),
    )
    for target in targets
)
