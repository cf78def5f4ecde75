# SPDX-License-Identifier: Apache-2.0
"""Rewrites of norms: the mean is subtracted before the kernels compute variances.

The kernels compute E[x^2] - E[x]^2 in float32: of seven digits, three are lost if the mean is 10 times the
deviation, and all if it is 1,000 times. For layer norm the library of portable kernels does so, and that of
optimized kernels, which the stock runtime has, for rows of less than 256 elements. Subtracting the mean takes
half of the time of a norm, at most 2% of that of a network, and no planned memory.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.rules.batch_norm import batch_norm_of_batch
from delegatec.edge.legalize.rules.layer_norm import group_norm, layer_norm_by_arithmetic
from delegatec.edge.patterns.pattern import Through, Var
from delegatec.program.kernels.limits import COMPUTED_IN

aten = torch.ops.aten

# Rows of at least this many elements have their moments computed in chunks.
LONG_ROW: Final = 256


def _layer_norm(b: Builder, node: Node) -> list[Any] | None:
    """See the module. The kernel computes float64 in float32."""
    a = bind(node)
    x, first = a["input"], -len(a["normalized_shape"])
    count = math.prod(shape_of(x)[first:])
    rows = [*shape_of(x)[:first], count]
    if dtype_of(x) is torch.float64:
        return layer_norm_by_arithmetic(b, node)
    return None if isinstance(count, int) and count >= LONG_ROW else _of_centered(b, node, rows)


def _group_norm(b: Builder, node: Node) -> Any:
    """See the module. The kernel computes float64 in float32."""
    a = bind(node)
    batch, *sizes = shape_of(a["input"])
    if dtype_of(node.args[0]) is torch.float64:  # type: ignore[arg-type]
        return group_norm(b, node)
    # a node if it depends on a dynamic size
    groups = a["group"].meta["val"] if isinstance(a["group"], Node) else a["group"]
    return _of_centered(b, node, [batch, groups, math.prod(sizes) // groups])


def _batch_norm(b: Builder, node: Node) -> Any:
    """See the module. The kernel computes float64 in float32."""
    x = node.args[0]
    assert isinstance(x, Node)
    if dtype_of(x) is torch.float64:
        return batch_norm_of_batch(b, node)
    batch, channels, *sizes = shape_of(x)
    return _of_centered(b, node, [batch, channels, math.prod(sizes)], of_batch=True)


def _of_centered(b: Builder, node: Node, rows: list[int], of_batch: bool = False) -> list[Any] | None:
    """Calls the norm of the elements less their means.

    Args:
        b: emits the calls.
        node: the norm; its input is its first argument.
        rows: the shape in which the last dimension is reduced; kernels subtract one scalar per row fastest.
        of_batch: whether the first dimension is reduced, too.
    """
    x: Any = node.args[0]
    computed_first: Any = COMPUTED_IN[node.target]  # type: ignore[index]
    if dtype_of(x) in computed_first or _is_centered(x, rows):
        return None
    flat = b.call(aten.view.default, x, rows)
    mean = b.call(aten.mean.dim, flat, [len(rows) - 1], True)
    if of_batch:
        mean = b.call(aten.expand.default, b.call(aten.mean.dim, mean, [0], True), [*rows[:-1], 1])
    centered = b.call(aten.view.default, b.call(aten.sub.Tensor, flat, mean), list(shape_of(x)))
    val = node.meta["val"]
    results = b.call(node.target, centered, *node.args[1:], val=val, **node.kwargs)
    replaced: list[Any] = [b.call(operator.getitem, results, i, val=each) for i, each in enumerate(val)]
    if 1 in read_results(node):
        first = b.call(aten.slice.Tensor, mean, 0, 0, 1) if of_batch else mean
        replaced[1] = b.call(aten.view.default, first, list(val[1].shape), val=val[1])
    return replaced


def _is_centered(x: Node, rows: list[int]) -> bool:
    """Whether the means of the rows have been subtracted."""
    match = _CENTERED.first(x)
    return match is not None and shape_of(match.values["mean"]) == (*rows[:-1], 1)


_MEANS: Final = (aten.mean.dim, aten.view.default, aten.expand.default)
_MEAN: Final = Through(Var("x"), lambda node: node.target in _MEANS).named("mean")
_CENTERED: Final = Through(Var("x") - _MEAN, lambda node: node.target is aten.view.default)


RULES: RuleTable = {
    aten._native_batch_norm_legit.no_stats: _batch_norm,
    aten.native_group_norm.default: _group_norm,
    aten.native_layer_norm.default: _layer_norm,
}
