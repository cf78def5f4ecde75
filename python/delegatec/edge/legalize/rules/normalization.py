# SPDX-License-Identifier: Apache-2.0
"""Normalizations and softmax at inference, as the core ATen operators that the runtime has kernels for."""

from __future__ import annotations

import math
import operator

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.symbols import smallest

aten = torch.ops.aten


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
        aten._native_batch_norm_legit_no_training.default,
        *(a["input"], weight, bias, mean, variance, a["momentum"], a["eps"]),
        val=(node.meta["val"], empty, empty),
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def _layer_norm(b: Builder, node: Node) -> Node:
    a = bind(node)
    val, normalized = node.meta["val"], list(a["normalized_shape"])
    # torch's shape inference would specialize a dynamic size
    statistics = b.empty([*shape_of(node)[: -len(normalized)], *[1] * len(normalized)], val.dtype)
    results = b.call(
        aten.native_layer_norm.default,
        *(a["input"], normalized, a["weight"], a["bias"], a["eps"]),
        val=(val, statistics, statistics),
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def _group_norm(b: Builder, node: Node) -> list[Node] | None:
    """Computes a layer norm per group of channels, then the affine map of the channels."""
    a = bind(node)
    x, affine = a["input"], (a["weight"], a["bias"])
    batch, *sizes = shape_of(x)
    if not all(isinstance(size, int) for size in sizes) or 0 in sizes:
        return None
    if any(parameter is not None and dtype_of(parameter) != dtype_of(x) for parameter in affine):
        return None
    groups = a["group"]
    grouped = b.call(aten.view.default, x, [batch, groups, math.prod(sizes) // groups])
    statistics = b.empty([batch, groups, 1], dtype_of(x))
    results = b.call(
        aten.native_layer_norm.default,
        *(grouped, list(shape_of(grouped))[2:], None, None, a["eps"]),
        val=(grouped.meta["val"], statistics, statistics),
    )
    y, mean, rstd = (b.call(operator.getitem, results, i, val=results.meta["val"][i]) for i in range(3))
    y = b.call(aten.view.default, y, [batch, *sizes])
    y = _affine(b, y, *affine)
    return [y, *(b.call(aten.view.default, each, [batch, groups]) for each in (mean, rstd))]


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


def _batch_statistics(b: Builder, node: Node) -> list[Node] | None:
    """Computes a batch norm with the mean and variance of the batch."""
    a = bind(node)
    x, affine = a["input"], (a["weight"], a["bias"])
    if not a["training"] or any(each is not None and dtype_of(each) != dtype_of(x) for each in affine):
        return None
    channels = shape_of(x)[1]
    dims = [dim for dim in range(len(shape_of(x))) if dim != 1]
    mean = _mean(b, x, dims)
    centered = b.call(aten.sub.Tensor, x, mean)
    variance = _mean(b, b.call(aten.mul.Tensor, centered, centered), dims)
    rstd = b.call(aten.rsqrt.default, b.call(aten.add.Scalar, variance, a["eps"]))
    y = _affine(b, b.call(aten.mul.Tensor, centered, rstd), *affine)
    return [y, *(b.call(aten.view.default, each, [channels]) for each in (mean, rstd))]


def _affine(b: Builder, x: Node, weight: Node | None, bias: Node | None) -> Node:
    """Multiplies and adds per channel, which is dimension 1."""
    channels, *sizes = shape_of(x)[1:]
    for operation, parameter in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
        if parameter is not None:
            x = b.call(operation, x, b.call(aten.view.default, parameter, [channels, *[1] * len(sizes)]))
    return x


def _rms_norm(b: Builder, node: Node) -> Node | None:
    """Divides by the root of the mean square, in float32."""
    a = bind(node)
    x, weight = a["input"], a["weight"]
    rank = len(shape_of(x))
    dims = list(reversed(range(rank - len(a["normalized_shape"]), rank)))
    if any(each is not None and dtype_of(each) != torch.float32 for each in (x, weight)):
        return None
    eps = torch.finfo(torch.float32).eps if a["eps"] is None else torch.tensor(a["eps"]).item()
    mean = _mean(b, b.call(aten.pow.Tensor_Scalar, x, 2), dims)
    scale = b.call(aten.rsqrt.default, b.call(aten.add.Scalar, mean, eps))
    y = b.call(aten.mul.Tensor, x, scale, val=node.meta["val"])
    return y if weight is None else b.call(aten.mul.Tensor, y, weight, val=node.meta["val"])


def _mean(b: Builder, x: Node, dims: list[int], keepdim: bool = True) -> Node:
    """Averages over dimensions counted from the front."""
    kept = [1 if dim in dims else size for dim, size in enumerate(shape_of(x)) if keepdim or dim not in dims]
    return b.call(aten.mean.dim, x, dims, keepdim, val=b.empty(kept, dtype_of(x)))


def _moments(b: Builder, node: Node) -> Node | list[Node] | None:
    """Computes the variance as the mean of squared deviations; and the mean, if requested."""
    a = bind(node)
    x = a["self"]
    rank = len(shape_of(x))
    dims = [dim % rank for dim in a["dim"] or range(rank)] if rank else []
    sizes = [shape_of(x)[dim] for dim in dims]
    if not dims:
        return None
    correction = int(a["unbiased"]) if "unbiased" in a else 1 if a["correction"] is None else a["correction"]
    count = math.prod(sizes)
    if smallest(count) <= correction:
        return None
    mean = _mean(b, x, dims)
    centered = b.call(aten.sub.Tensor, x, mean)
    variance = _mean(b, b.call(aten.mul.Tensor, centered, centered), dims, a["keepdim"])
    if correction:
        variance = b.call(aten.mul.Scalar, variance, count / (count - correction))
    if node.target is not aten.var_mean.correction:
        return variance
    return [variance, mean if a["keepdim"] else b.call(aten.squeeze.dims, mean, dims)]


def _deviation(b: Builder, node: Node) -> Node:
    """Computes the root of the variance."""
    a, val = bind(node), node.meta["val"]
    correction = int(a["unbiased"]) if "unbiased" in a else a["correction"]
    variance = aten.var.correction
    options = {"correction": correction, "keepdim": a["keepdim"]}
    return b.call(aten.sqrt.default, b.call(variance, a["self"], a["dim"], val=val, **options), val=val)


def _softmax(b: Builder, node: Node) -> Node:
    a = bind(node)
    x = a["self"]
    if a["dtype"] is not None and a["dtype"] != dtype_of(x):
        x = b.call(aten._to_copy.default, x, dtype=a["dtype"])
    core = aten._softmax.default if node.target is aten.softmax.int else aten._log_softmax.default
    return b.call(core, x, a["dim"], False, val=node.meta["val"])


def _vector_norm(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["ord"] != 2 or a["dtype"] is not None:
        return None
    x = a["self"]
    dims = list(range(len(shape_of(x)))) if a["dim"] is None else list(a["dim"])
    # The square of a norm may exceed float16 where the norm does not.
    is_narrow = dtype_of(x).itemsize == 2
    wide = b.call(aten._to_copy.default, x, dtype=torch.float32) if is_narrow else x
    total = b.call(aten.sum.dim_IntList, b.call(aten.mul.Tensor, wide, wide), dims, a["keepdim"])
    norm = b.call(aten.sqrt.default, total)
    return b.call(aten._to_copy.default, norm, dtype=dtype_of(x)) if is_narrow else norm


RULES: RuleTable = {
    aten._native_batch_norm_legit.no_stats: _batch_statistics,
    aten.batch_norm.default: _batch_norm,
    aten.instance_norm.default: _instance_norm,
    aten.layer_norm.default: _layer_norm,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.log_softmax.int: _softmax,
    aten.native_group_norm.default: _group_norm,
    aten.rms_norm.default: _rms_norm,
    aten.softmax.int: _softmax,
    **dict.fromkeys((aten.std.correction, aten.std.dim), _deviation),
    **dict.fromkeys((aten.var.correction, aten.var.dim, aten.var_mean.correction), _moments),
}
