# SPDX-License-Identifier: Apache-2.0
"""Normalization and softmax in the forms that the runtime has."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.memory.workgroups import MOST_WORKGROUPS
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind, positive, read_results
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import batch_norm, layer_norm
from delegatec.edge.legalize.rules.layer_norm import filled_row
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.rules.softmax import last_dimension
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import largest

aten = torch.ops.aten

_RANK: Final = 4
_SAMPLED: Final = 16
"""Rows or columns of an image, of which the first is in the sample of a group norm."""


def _rms_norm(builder: Builder, node: Node) -> Node | None:
    """Flattens the normalized dimensions; absent weights are ones, variable ones are multiplied."""
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    weight, rows = bound["weight"], x.numel // count
    if bound["eps"] is None:
        return None
    if rows > MOST_WORKGROUPS:
        wide = x.to(torch.float32).view(rows, count)
        epsilon: float = bound["eps"]
        scale = ((wide * wide).mean([1], keepdim=True) + epsilon).rsqrt()
        normal = (wide * scale).to(x.dtype).view(*x.shape)
        return normal.node if weight is None else (normal * value_of(builder, weight)).node
    is_variable = weight is not None and builder.facts.constant(weight) is None
    row = filled_row(builder, None if is_variable else weight, count, 1.0, x.dtype)
    shaped = x if x.rank <= _RANK and x.shape[-1] == count else x.view(rows, count)
    norm = builder.call(aten.rms_norm.default, shaped.node, [count], row, bound["eps"])
    result = Value(builder, norm).view(*x.shape)
    return (result * value_of(builder, weight) if is_variable else result).node


def _group_norm(builder: Builder, node: Node) -> Any:
    """Subtracts a value near the mean of each group.

    The shader computes the variance as the mean of the squares less the square of the mean, in float32: a
    mean of m deviations costs m^2 roundings, and the variance may be negative. After the subtraction, the
    mean is at most `sqrt(_SAMPLED)` deviations: the sample has one of `_SAMPLED` elements, so that its
    distance from the mean is part of the variance.
    """
    bound = bind(node)
    x, groups = value_of(builder, bound["input"]), bound["group"]
    if x.rank != _RANK or None in (bound["weight"], bound["bias"]):
        return None
    batch, channels, *image = x.shape
    members, near = channels // groups, x
    if image != [1, 1]:
        dim = max((2, 3), key=lambda dim: largest(x.shape[dim]) or math.inf)
        near = x.slice(dim, 0, x.shape[dim], _SAMPLED).mean([2, 3], keepdim=True)
    if members > 1:
        near = near.view(batch * groups, members).mean([1], keepdim=True)
        near = near.expand(batch * groups, members).view(batch, channels, 1, 1)
    args = [bound[name] for name in ("weight", "bias", "N", "C", "HxW", "group", "eps")]
    values = node.meta["val"]
    results = builder.call(RUNTIME.group_norm.default, (x - near).node, *args, val=values)
    read = read_results(node)
    out, mean, rstd = (
        Value(builder, builder.call(operator.getitem, results, index, val=value)) if index in read else None
        for index, value in enumerate(values)
    )
    if mean is not None:
        mean = mean + near.view(batch, groups, members).slice(2, 0, 1).view(batch, groups)
    return [each and each.node for each in (out, mean, rstd)]


def _softmax(builder: Builder, node: Node) -> Node | None:
    """Moves batch or channels, which are stacked along one axis, to the end."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if x.rank != 4 or positive(bound["dim"], 4) > 1:
        return None
    return last_dimension(builder, node)


def _log_softmax(builder: Builder, node: Node) -> Node | None:
    """Keeps minus infinity, for which most shaders write zero."""
    x = value_of(builder, bind(node)["self"])
    lowest = torch.finfo(x.dtype).min
    if builder.facts.of(x.node).low >= lowest:
        return None
    result = again(builder, node, self=x.clamp(low=lowest).node)
    return x.ge(lowest).where(Value(builder, result), x).node


REWRITES: Final = (
    layer_norm.OF_ROWS,
    Rewrite(aten.rms_norm.default, _rms_norm),
    layer_norm.GROUP_NORM_OF_IMAGES,
    Rewrite(
        aten.native_group_norm.default,
        _group_norm,
        note="less a value near the mean, whose square the shader subtracts from the mean of the squares",
        preserved=True,
    ),
    *(Rewrite(target, _softmax) for target in (aten._softmax.default, aten._log_softmax.default)),
    Rewrite(aten._log_softmax.default, _log_softmax),
    batch_norm.by_constants(),
)
