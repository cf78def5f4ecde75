# SPDX-License-Identifier: Apache-2.0
"""Norms: of rows, and of images, whose statistics are computed where the channels are the last dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.operators.rewrites.pools import mean
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import only_first_result
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.batch_norm import by_constants
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def _layer_norm(builder: Builder, node: Node) -> list[Node | None]:
    """Flattens the normalized dimensions; in float32."""
    bound = bind(node)
    source = value_of(builder, bound["input"])
    outer, length = source.shape[: -len(bound["normalized_shape"])], math.prod(bound["normalized_shape"])
    y = _normalized(
        source.widened().view(*outer, length), lambda x: x.mean([len(outer)], keepdim=True), bound["eps"]
    ).view(*source.shape)
    for name, operation in (("weight", Value.__mul__), ("bias", Value.__add__)):
        if bound[name] is not None:
            y = operation(y, value_of(builder, bound[name], y.dtype))
    return [y.to(source.dtype).node, None, None]


def _normalized(x: Value, averages: Callable[[Value], Value], eps: float) -> Value:
    centered = x - averages(x)
    return centered * (averages(centered**2) + eps).rsqrt()


def _varying_sizes(node: Node, _: object) -> str | None:
    sizes, count = bind(node)["input"].meta["val"].shape, len(bind(node)["normalized_shape"])
    if is_dynamic(sizes[-count:]):
        return f"a norm of the sizes {[str(size) for size in sizes[-count:]]}"
    varying = [size for size in sizes[:-count] if not isinstance(size, int)]
    return f"the sizes {[str(size) for size in sizes]}" if count > 1 and len(varying) > 1 else None


def _group_norm(builder: Builder, node: Node) -> list[Node | None] | None:
    """Takes means over pixels, and then over the channels of each group."""
    bound = bind(node)
    groups, source = bound["group"], value_of(builder, bound["input"])
    if source.rank not in (3, 4) or is_dynamic(source.shape[1:]):
        return None
    sizes = source.shape
    if source.rank == 3:
        source = source.view(*sizes[:2], 1, sizes[2])
    batch, channels, height, width = source.shape
    inner = channels // groups

    def averages(x: Value) -> Value:
        """Returns the mean of each group of [N, H * W, G, C / G], [N, 1, G, 1]."""
        pixels = mean(x.view(batch, height, width, channels)).view(batch, 1, groups, inner)
        return pixels if inner == 1 else pixels.mean([3], keepdim=True)

    x = channels_last(source).widened().view(batch, height * width, groups, inner)
    result = _normalized(x, averages, bound["eps"])
    result = channels_first(result.view(batch, height, width, channels).to(source.dtype))
    for name, operation in (("weight", Value.__mul__), ("bias", Value.__add__)):
        parameter = bound[name]
        if parameter is not None:
            constant = builder.facts.constant(parameter)
            if constant is not None:
                moved = Value(builder, builder.derived(parameter, constant.detach().view(-1, 1, 1)))
            else:
                moved = value_of(builder, parameter).view(*shape_of(parameter), 1, 1)
            result = operation(result, moved)
    return [result.view(*sizes).node, None, None]


_SIZES: Final = Constraint[object](
    "dynamic-shape",
    "Normalized sizes are static; with several, at most one other size is dynamic.",
    _varying_sizes,
    "make the size a constant of the model",
)

REWRITES: Final = (
    by_constants(),
    Rewrite(
        aten.native_layer_norm.default,
        _layer_norm,
        (_SIZES, only_first_result("the delegate does not return the statistics.")),
        note="in float32",
    ),
    Rewrite(
        aten.native_group_norm.default,
        _group_norm,
        (only_first_result("the statistics are inside."),),
        note="channels last: means over pixels, and then over channels of a group",
        preserved=True,
    ),
)
