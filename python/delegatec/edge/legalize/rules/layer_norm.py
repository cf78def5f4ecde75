# SPDX-License-Identifier: Apache-2.0
"""Layer, group, instance and RMS norm."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.batch_norm import affine_of_channels
from delegatec.edge.legalize.rules.ranks import FEW, again
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_LAYER_NORM: Final = aten.native_layer_norm.default


# ---- normal form -----------------------------------------------------------------------------------------


def _layer_norm(b: Builder, node: Node) -> Node:
    a = bind(node)
    val, normalized = node.meta["val"], list(a["normalized_shape"])
    # torch's shape inference would specialize a dynamic size
    statistics = b.empty([*shape_of(node)[: -len(normalized)], *[1] * len(normalized)], val.dtype)
    results = b.call(
        _LAYER_NORM,
        *(a["input"], normalized, a["weight"], a["bias"], a["eps"]),
        val=(val, statistics, statistics),
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def group_norm(builder: Builder, node: Node) -> list[Node] | None:
    """Computes a layer norm per group of channels, then the affine map of the channels."""
    bound = bind(node)
    x, affine = value_of(builder, bound["input"]), (bound["weight"], bound["bias"])
    batch, *sizes = x.shape
    if not all(isinstance(size, int) for size in sizes) or 0 in sizes:
        return None
    if any(parameter is not None and dtype_of(parameter) != x.dtype for parameter in affine):
        return None
    groups, count = bound["group"], math.prod(sizes) // bound["group"]
    rows, statistics = x.view(batch, groups, count), builder.empty([batch, groups, 1], x.dtype)
    values = (rows.node.meta["val"], statistics, statistics)
    results = builder.call(_LAYER_NORM, rows.node, [count], None, None, bound["eps"], val=values)
    y, mean, rstd = (
        Value(builder, builder.call(operator.getitem, results, index, val=value))
        for index, value in enumerate(values)
    )
    y = affine_of_channels(y.view(*x.shape), *affine)
    return [y.node, *(each.view(batch, groups).node for each in (mean, rstd))]


def _instance_norm(b: Builder, node: Node) -> Node | None:
    """Computes a group norm with one group per channel."""
    a = bind(node)
    x = a["input"]
    if not a["use_input_stats"] or a["running_mean"] is not None:
        return None
    batch, channels, *sizes = shape_of(x)
    statistics = b.empty([batch, channels], dtype_of(x))
    results = b.call(
        aten.native_group_norm.default,
        *(x, a["weight"], a["bias"], batch, channels, math.prod(sizes), channels, a["eps"]),
        val=(node.meta["val"], statistics, statistics),
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def _rms_norm(builder: Builder, node: Node) -> Node | None:
    """Divides by the root of the mean square, in float32."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), bound["weight"]
    dims = list(reversed(range(x.rank - len(bound["normalized_shape"]), x.rank)))
    if any(dtype_of(each) != torch.float32 for each in (x.node, weight or x.node)):
        return None
    eps = torch.finfo(torch.float32).eps if bound["eps"] is None else torch.tensor(bound["eps"]).item()
    y = x * ((x**2).mean(dims, keepdim=True) + eps).rsqrt()
    return (y if weight is None else y * value_of(builder, weight)).node


# ---- for targets that have a layer norm of few forms -------------------------------------------------------


def layer_norm_by_arithmetic(builder: Builder, node: Node) -> list[Node | None]:
    """Subtracts the mean, and multiplies by the reciprocal of the deviation; half precision in float32."""
    bound, dtype = bind(node), node.meta["val"][0].dtype
    x = value_of(builder, bound["input"]).widened()
    dims = list(range(x.rank - len(bound["normalized_shape"]), x.rank))
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    rstd = ((centered * centered).mean(dims, keepdim=True) + bound["eps"]).rsqrt()
    y = centered * rstd
    if bound["weight"] is not None:
        y = y * value_of(builder, bound["weight"], x.dtype)
    if bound["bias"] is not None:
        y = y + value_of(builder, bound["bias"], x.dtype)
    read = read_results(node)
    statistics = [each.to(dtype).node if index in read else None for index, each in ((1, mean), (2, rstd))]
    return [y.to(dtype).node, *statistics]


def _of_rows(*, filled: bool) -> Rule:
    """Returns the rule that flattens the normalized dimensions, and those before them.

    It is for more than four dimensions; `filled`, for more than one normalized dimension and absent
    parameters, which it makes ones and zeros.
    """

    def rule(builder: Builder, node: Node) -> Any:
        bound = bind(node)
        x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
        weight, bias = bound["weight"], bound["bias"]
        if filled:
            if len(bound["normalized_shape"]) == 1 and None not in (weight, bias):
                return None
        elif x.rank <= FEW:
            return None
        rows = x.view(x.numel // count, count).node
        parameters = {
            name: filled_row(builder, bound[name], count, default, x.dtype)
            if filled or bound[name] is not None
            else None
            for name, default in (("weight", 1.0), ("bias", 0.0))
        }
        return again(builder, node, input=rows, normalized_shape=[count], **parameters)

    return rule


def _rms_of_rows(builder: Builder, node: Node) -> Any:
    """Merges several normalized dimensions."""
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    if len(bound["normalized_shape"]) == 1:
        return None
    weight = None if bound["weight"] is None else filled_row(builder, bound["weight"], count, 1.0, x.dtype)
    rows = x.view(x.numel // count, count).node
    return again(builder, node, input=rows, normalized_shape=[count], weight=weight)


def filled_row(
    builder: Builder, parameter: Node | None, count: int, default: float, dtype: torch.dtype
) -> Node:
    """Returns a parameter as a row, or a constant for an absent one; a constant keeps all its digits."""
    if parameter is None:
        return builder.constant(torch.full((count,), default, dtype=dtype))
    if len(shape_of(parameter)) == 1:
        return parameter
    constant = builder.program.constants.get(parameter.name)
    if constant is None:
        return value_of(builder, parameter).view(count).node
    return builder.derived(parameter, constant.detach().reshape(-1))


def _group_norm_of_images(builder: Builder, node: Node) -> Any:
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
        weight=filled_row(builder, bound["weight"], channels, 1.0, x.dtype),
        bias=filled_row(builder, bound["bias"], channels, 0.0, x.dtype),
    )


RULES: Final[RuleTable] = {
    aten.instance_norm.default: _instance_norm,
    aten.layer_norm.default: _layer_norm,
    aten.native_group_norm.default: group_norm,
    aten.rms_norm.default: _rms_norm,
}

REWRITES: Final = (
    Rewrite(_LAYER_NORM, _of_rows(filled=False), note="of rank above 4, with merged dimensions"),
)

BY_ARITHMETIC: Final = Rewrite(_LAYER_NORM, layer_norm_by_arithmetic)
OF_ROWS: Final = Rewrite(_LAYER_NORM, _of_rows(filled=True))
RMS_OF_ROWS: Final = Rewrite(aten.rms_norm.default, _rms_of_rows, note="of several dimensions, merged")
GROUP_NORM_OF_IMAGES: Final = Rewrite(aten.native_group_norm.default, _group_norm_of_images)
