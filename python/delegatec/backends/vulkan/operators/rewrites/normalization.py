# SPDX-License-Identifier: Apache-2.0
"""Normalization and softmax in the forms that the runtime has."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.memory.workgroups import MOST_WORKGROUPS
from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import batch_norm, layer_norm
from delegatec.edge.legalize.rules.layer_norm import filled_row
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.rules.softmax import last_dimension
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_RANK: Final = 4


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
    *(Rewrite(target, _softmax) for target in (aten._softmax.default, aten._log_softmax.default)),
    Rewrite(aten._log_softmax.default, _log_softmax),
    batch_norm.by_constants(),
)
