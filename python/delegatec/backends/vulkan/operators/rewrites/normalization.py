# SPDX-License-Identifier: Apache-2.0
"""Normalization and softmax in the forms that the runtime has."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.memory.workgroups import MOST_WORKGROUPS
from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_RANK: Final = 4


def _layer_norm(builder: Builder, node: Node) -> Any:
    """Joins the normalized dimensions; absent weights are ones, absent biases zeros."""
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    if len(bound["normalized_shape"]) == 1 and None not in (bound["weight"], bound["bias"]):
        return None
    return again(
        builder,
        node,
        input=x.view(x.numel // count, count).node,
        normalized_shape=[count],
        weight=_parameter(builder, bound["weight"], count, 1.0, x.dtype),
        bias=_parameter(builder, bound["bias"], count, 0.0, x.dtype),
    )


def _rms_norm(builder: Builder, node: Node) -> Node | None:
    """Joins the normalized dimensions; absent weights are ones, variable ones are multiplied."""
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
    row = _parameter(builder, None if is_variable else weight, count, 1.0, x.dtype)
    shaped = x if x.rank <= _RANK and x.shape[-1] == count else x.view(rows, count)
    norm = builder.call(aten.rms_norm.default, shaped.node, [count], row, bound["eps"])
    result = Value(builder, norm).view(*x.shape)
    return (result * value_of(builder, weight) if is_variable else result).node


def _group_norm(builder: Builder, node: Node) -> Any:
    """Views as images; absent weights are ones, absent biases zeros."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    channels = x.shape[1]
    if x.rank == 4 and None not in (bound["weight"], bound["bias"]):
        return None
    image = x if x.rank == 4 else x.view(*x.shape[:2], 1, x.numel // (x.shape[0] * channels))
    return again(
        builder,
        node,
        input=image.node,
        weight=_parameter(builder, bound["weight"], channels, 1.0, x.dtype),
        bias=_parameter(builder, bound["bias"], channels, 0.0, x.dtype),
    )


def _parameter(builder: Builder, given: Node | None, count: int, default: float, dtype: torch.dtype) -> Node:
    if given is None:
        return builder.constant(torch.full((count,), default, dtype=dtype))
    constant = builder.program.constants.get(given.name)
    if len(shape_of(given)) == 1 or constant is None:
        return given if len(shape_of(given)) == 1 else value_of(builder, given).view(count).node
    return builder.derived(given, constant.detach().reshape(-1))


def _softmax(builder: Builder, node: Node) -> Node | None:
    """Moves batch or channels, which are stacked along one axis, to the end."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if x.rank != 4 or (dim := positive(bound["dim"], 4)) > 1:
        return None
    order = [each for each in range(4) if each != dim] + [dim]
    moved = builder.call(node.target, x.permute(*order).node, 3, bound["half_to_float"])
    return Value(builder, moved).permute(*(order.index(each) for each in range(4))).node


def _log_softmax(builder: Builder, node: Node) -> Node | None:
    """Keeps minus infinity, for which most shaders write zero."""
    x = value_of(builder, bind(node)["self"])
    lowest = torch.finfo(x.dtype).min
    if builder.facts.of(x.node).low >= lowest:
        return None
    result = again(builder, node, self=x.clamp(low=lowest).node)
    return x.ge(lowest).where(Value(builder, result), x).node


def _batch_norm(builder: Builder, node: Node) -> list[Node | None] | None:
    """Scales and shifts each channel."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    given = {
        name: bound[name] and builder.facts.constant(bound[name])
        for name in ("weight", "bias", "running_mean", "running_var")
    }
    mean, variance = given["running_mean"], given["running_var"]
    if mean is None or variance is None or any(bound[n] is not None and given[n] is None for n in given):
        return None
    scale = (variance.double() + bound["eps"]).rsqrt()
    if given["weight"] is not None:
        scale = scale * given["weight"]
    shift = -mean * scale
    if given["bias"] is not None:
        shift = shift + given["bias"]
    shape = [-1] + [1] * (x.rank - 2)
    factors = [builder.constant(each.to(mean.dtype).reshape(shape)) for each in (scale, shift)]
    factor, offset = (value_of(builder, each, x.dtype) for each in factors)
    return [(x * factor + offset).node, None, None]


REWRITES: Final = (
    Rewrite(aten.native_layer_norm.default, _layer_norm),
    Rewrite(aten.rms_norm.default, _rms_norm),
    Rewrite(aten.native_group_norm.default, _group_norm),
    *(Rewrite(target, _softmax) for target in (aten._softmax.default, aten._log_softmax.default)),
    Rewrite(aten._log_softmax.default, _log_softmax),
    Rewrite(aten._native_batch_norm_legit_no_training.default, _batch_norm, note="a product and a sum"),
)
