# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls whose kernels fail for tensors that are empty when the program runs.

Sizes that depend on data may be 0: nothing is found. Calls whose results are always empty are not calls of
kernels (`legalize.py`). The docstring of a rule is the fault, as measured with the stock runtime 1.4.1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable
from delegatec.edge.legalize.rules.softmax import log_softmax
from delegatec.edge.legalize.value import cat, full, value_of
from delegatec.edge.symbols import smallest

aten = torch.ops.aten


def loses_size(node: Node) -> bool:
    """Whether `cat` may have a wrong shape: [0, 0] for two operands of [0, 4] along dimension 1.

    The kernel ignores the sizes of operands without elements.
    """
    sizes = list(shape_of(node))
    sizes.pop(bind(node)["dim"])
    return _may_be_empty(sizes)


def _extremum(target: Any) -> Rule:
    """Makes the rule of `amax` or `amin`: the kernels abort if the operand is empty."""

    def rule(b: Builder, node: Node) -> Node | None:
        a = bind(node)
        x, keepdim = a["self"], a["keepdim"]
        sizes = shape_of(x)
        if not _may_be_empty(sizes):
            return None
        dims = sorted({dim % len(sizes) for dim in a["dim"] or range(len(sizes))}, reverse=True)
        for dim in dims:
            pair = b.call(target, x, dim, keepdim)
            x = b.call(operator.getitem, pair, 0, val=pair.meta["val"][0])
        return x  # type: ignore[no-any-return]

    return rule


def log_softmax_of_empty(b: Builder, node: Node) -> Node | None:
    """The kernel aborts if its operand is empty."""
    a = bind(node)
    sizes = list(shape_of(node))
    if not _may_be_empty(sizes):
        return None
    x = value_of(b, a["self"], dtype_of(node))
    dim, most = a["dim"] % len(sizes), x
    if _may_be_empty([sizes[dim]]):  # without elements, there is no maximum
        sizes[dim] = 1
        most = cat([x, full(b, sizes, -math.inf, x.dtype)], dim)
    return log_softmax(x, dim, most).node


def _index_select(b: Builder, node: Node) -> Node | None:
    """The kernel rejects an operand without elements along the dimension, of which none are selected."""
    a = bind(node)
    x, sizes = a["self"], shape_of(a["self"])
    if not sizes or not _may_be_empty([sizes[a["dim"]]]):
        return None
    indices = [None] * (a["dim"] % len(sizes)) + [a["index"]]
    return b.call(aten.index.Tensor, x, indices, val=node.meta["val"])


def _may_be_empty(sizes: Iterable[Any]) -> bool:
    return any(isinstance(size, torch.SymInt) and smallest(size) < 1 for size in sizes)


RULES: RuleTable = {
    aten.amax.default: _extremum(aten.max.dim),
    aten.amin.default: _extremum(aten.min.dim),
    aten.index_select.default: _index_select,
}
