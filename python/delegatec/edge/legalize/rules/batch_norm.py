# SPDX-License-Identifier: Apache-2.0
"""Batch norm."""

from __future__ import annotations

import math
import operator
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.ranks import FEW, again
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_INFERENCE: Final = aten._native_batch_norm_legit_no_training.default


# ---- normal form -----------------------------------------------------------------------------------------


def _batch_norm(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["running_mean"] is None:
        results = b.call(
            aten._native_batch_norm_legit.no_stats,
            *(a["input"], a["weight"], a["bias"], True, a["momentum"], a["eps"]),
        )
        return b.call(operator.getitem, results, 0, val=node.meta["val"])
    if a["training"]:
        return None
    mean, variance = a["running_mean"], a["running_var"]
    # the kernel requires an affine map
    weight = a["weight"] or b.call(aten.full.default, list(shape_of(mean)), 1.0, dtype=dtype_of(mean))
    bias = a["bias"] or b.call(aten.full.default, list(shape_of(mean)), 0.0, dtype=dtype_of(mean))
    empty = b.empty([0], dtype_of(mean))
    results = b.call(
        _INFERENCE,
        *(a["input"], weight, bias, mean, variance, a["momentum"], a["eps"]),
        val=(node.meta["val"], empty, empty),
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def batch_norm_of_batch(builder: Builder, node: Node) -> list[Node] | None:
    """Normalizes by the mean and variance of the batch."""
    bound = bind(node)
    x, affine = value_of(builder, bound["input"]), (bound["weight"], bound["bias"])
    if not bound["training"] or any(each is not None and dtype_of(each) != x.dtype for each in affine):
        return None
    dims = [dim for dim in range(x.rank) if dim != 1]
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    rstd = ((centered * centered).mean(dims, keepdim=True) + bound["eps"]).rsqrt()
    y = affine_of_channels(centered * rstd, *affine)
    return [y.node, *(each.view(x.shape[1]).node for each in (mean, rstd))]


def affine_of_channels(x: Value, weight: Node | None, bias: Node | None) -> Value:
    """Multiplies and adds a parameter per channel, which is dimension 1."""
    shape = (x.shape[1], *[1] * (x.rank - 2))
    if weight is not None:
        x = x * value_of(x.builder, weight, x.dtype).view(*shape)
    return x if bias is None else x + value_of(x.builder, bias, x.dtype).view(*shape)


# ---- at inference ----------------------------------------------------------------------------------------


def _low_rank(builder: Builder, node: Node) -> list[Node | None] | None:
    x = value_of(builder, bind(node)["input"])
    if x.rank <= FEW:
        return None
    rows = x.view(*x.shape[:2], math.prod(x.shape[2:]))
    results: list[Node | None] = again(builder, node, input=rows.node)
    return results


def by_constants(*, wide: bool = False) -> Rewrite:
    """Returns the rewrite to a product and sum with constants; `wide` computes half precision in float32."""

    def rule(builder: Builder, node: Node) -> list[Node | None] | None:
        bound = bind(node)
        given: dict[str, torch.Tensor] = {}
        for name in ("weight", "bias", "running_mean", "running_var"):
            if bound[name] is not None:
                constant = builder.facts.constant(bound[name])
                if constant is None:
                    return None
                given[name] = constant.detach().double()
        scale = (given["running_var"] + bound["eps"]).rsqrt() * given.get("weight", 1.0)
        shift = given.get("bias", 0.0) - given["running_mean"] * scale
        x = value_of(builder, bound["input"])
        x = x.widened() if wide else x
        factor, offset = (
            # named after the statistic if there is no parameter
            _constant(bound[name] or bound[other], each, x)
            for name, other, each in (("weight", "running_var", scale), ("bias", "running_mean", shift))
        )
        return [(x * factor + offset).to(node.meta["val"][0].dtype).node, None, None]

    return Rewrite(_INFERENCE, rule, note="a product and a sum")


def _constant(origin: Node, values: torch.Tensor, x: Value) -> Value:
    """Returns a constant per channel; one whose digits are kept until it is written keeps them."""
    dtype = x.builder.program.constants[origin.name].dtype if dtype_of(origin) == x.dtype else x.dtype
    shaped = values.to(dtype).view(-1, *[1] * (x.rank - 2))
    return Value(x.builder, x.builder.derived(origin, shaped, x.dtype))


def _by_arithmetic(builder: Builder, node: Node) -> list[Node | None]:
    """Subtracts, scales and shifts by parameters that need not be constant, in float32."""
    bound = bind(node)
    x = value_of(builder, bound["input"]).widened()
    shape = (x.shape[1], *[1] * (x.rank - 2))
    weight, bias, mean, variance = (
        bound[name] and value_of(builder, bound[name], x.dtype).view(*shape)
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    y = (x - mean) * (variance + bound["eps"]).rsqrt()
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return [y.to(node.meta["val"][0].dtype).node, None, None]


RULES: Final[RuleTable] = {
    aten._native_batch_norm_legit.no_stats: batch_norm_of_batch,
    aten.batch_norm.default: _batch_norm,
}

REWRITES: Final = (Rewrite(_INFERENCE, _low_rank, note="of rank above 4, with merged dimensions"),)

BY_ARITHMETIC: Final = Rewrite(_INFERENCE, _by_arithmetic, note="with parameters that are not constant")
