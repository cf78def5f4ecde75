# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms; half precision in float32."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _shifted(builder: Builder, node: Node) -> tuple[Value, int]:
    """Returns x - max(x), and the dimension; a scalar has one dimension."""
    bound = bind(node)
    x = value_of(builder, bound["self"], dtype_of(node)).widened()
    x = x if x.shape else x.view(1)
    dim = positive(bound["dim"], x.rank)
    return x - x.amax([dim], keepdim=True), dim


def _softmax(builder: Builder, node: Node) -> Node:
    shifted, dim = _shifted(builder, node)
    powers = shifted.exp()
    result = powers / powers.sum([dim], keepdim=True)
    return result.view(*shape_of(node)).to(dtype_of(node)).node


def _log_softmax(builder: Builder, node: Node) -> Node:
    shifted, dim = _shifted(builder, node)
    result = shifted - shifted.exp().sum([dim], keepdim=True).log()
    return result.view(*shape_of(node)).to(dtype_of(node)).node


def _layer_norm(builder: Builder, node: Node) -> list[Node | None]:
    bound, dtype = bind(node), dtype_of_first(node)
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


def dtype_of_first(node: Node) -> torch.dtype:
    """Returns the dtype of the first of several results."""
    dtype: torch.dtype = node.meta["val"][0].dtype
    return dtype


def _batch_norm(builder: Builder, node: Node) -> list[Node | None]:
    """Scales and shifts each channel, by constants if the statistics are constants."""
    bound, dtype = bind(node), dtype_of_first(node)
    x = value_of(builder, bound["input"]).widened()
    shape = [-1] + [1] * (x.rank - 2)
    names = ("weight", "bias", "running_mean", "running_var")
    constants = {name: bound[name] and builder.facts.constant(bound[name]) for name in names}
    mean, variance = constants["running_mean"], constants["running_var"]
    is_constant = all(bound[name] is None or constants[name] is not None for name in names)
    if is_constant and mean is not None and variance is not None:
        scale = (variance.double() + bound["eps"]).rsqrt()
        if constants["weight"] is not None:
            scale = scale * constants["weight"]
        shift = -mean * scale
        if constants["bias"] is not None:
            shift = shift + constants["bias"]
        factors = [builder.constant(each.to(x.dtype).reshape(shape)) for each in (scale, shift)]
        factor, offset = (value_of(builder, each) for each in factors)
        return [(x * factor + offset).to(dtype).node, None, None]
    given = {
        name: bound[name] and value_of(builder, bound[name], x.dtype).view(x.shape[1], *shape[1:])
        for name in names
    }
    y = (x - given["running_mean"]) * (given["running_var"] + bound["eps"]).rsqrt()
    if given["weight"] is not None:
        y = y * given["weight"]
    if given["bias"] is not None:
        y = y + given["bias"]
    return [y.to(dtype).node, None, None]


REWRITES: Final = (
    Rewrite(aten._softmax.default, _softmax),
    Rewrite(aten._log_softmax.default, _log_softmax),
    Rewrite(aten.native_layer_norm.default, _layer_norm),
    Rewrite(aten._native_batch_norm_legit_no_training.default, _batch_norm, note="a product and a sum"),
)
