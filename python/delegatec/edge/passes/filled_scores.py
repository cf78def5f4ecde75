# SPDX-License-Identifier: Apache-2.0
"""Attention to a cache by calls that compute its scores and weights, restricted to filled rows.

Such calls bound the scores, or have a term without a value among those that the weights are divided by. All
columns after the filled rows are neutral: minus infinity where the largest score is taken, and zero in sums.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, cat, value_of
from delegatec.edge.passes.cached_rows import LEAST_ROWS, MOST_HEADS, cache_of, rows_of
from delegatec.edge.passes.filled_rows import FilledRows
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

# Operator -> its result where all elements are the same.
_UNARY: Final[dict[Any, Callable[[float], float]]] = {
    aten.exp.default: math.exp,
    aten.neg.default: operator.neg,
    aten.tanh.default: math.tanh,
}
_SCALARS: Final[dict[Any, Callable[[float, float], float]]] = {
    aten.add.Scalar: operator.add,
    aten.div.Scalar: operator.truediv,
    aten.mul.Scalar: operator.mul,
    aten.sub.Scalar: operator.sub,
}
# Operators of two tensors -> the element that stays with each finite operand.
_BINARY: Final[dict[Any, float | None]] = {
    aten.add.Tensor: -math.inf,
    aten.div.Tensor: 0.0,
    aten.maximum.default: None,
    aten.sub.Tensor: -math.inf,
}


class _Kind(Enum):
    """What a value has for each query: an element for each row of the cache, or one; or one for each head."""

    ROWS = auto()
    QUERIES = auto()
    HEADS = auto()


class _OtherCallError(Exception):
    """A call is not one of attention."""


@dataclass(frozen=True)
class _Known:
    """What is known of a value.

    Attributes:
        kind: its elements.
        masked: the elements of masked rows; None if they vary. A query whose result is NaN may have others.
    """

    kind: _Kind
    masked: float | None = None


def weighted_sum(b: Builder, node: Node, buffers: Collection[Node], rows: FilledRows) -> Node | None:
    """Returns a product of weights and a cache that reads filled rows only; None for another product.

    Args:
        b: builder before the product.
        node: `bmm` of weights [heads, queries, length] and values [heads, length, depth].
        buffers: those that the program writes to.
        rows: the masks of the program.
    """
    bound = bind(node)
    weights, cache = bound["self"], _cache(bound["mat2"], buffers)
    if cache is None or shape_of(cache)[1] > MOST_HEADS or shape_of(cache)[2] < LEAST_ROWS:
        return None
    scores = _Scores(b, buffers, rows, shape_of(weights))
    try:
        if scores.known(weights) != _Known(_Kind.ROWS, 0.0):
            return None
    except _OtherCallError:
        return None
    end = scores.filled()
    results = []
    for head in range(shape_of(cache)[1]):
        own = scores.of_head(weights, head, {})
        results.append(own @ value_of(b, rows_of(b, cache, head, end)))
    return cat(results, 0).view(*shape_of(node)).node


def _cache(node: Node, buffers: Collection[Node]) -> Node | None:
    """Returns the cache [1, heads, length, depth] that a node views as [heads, length, depth]."""
    if node.target is not aten.view.default:
        return None
    source: Node = bind(node)["self"]
    is_view = sizes_key(shape_of(source)) == (1, *sizes_key(shape_of(node)))
    return source if is_view and cache_of(source, buffers) is not None else None


class _Scores:
    """The calls between the two products of attention.

    Args:
        b: builder before the second product.
        buffers: those that the program writes to.
        rows: the masks of the program.
        shape: of the weights, [heads, group * queries, length].
    """

    def __init__(
        self, b: Builder, buffers: Collection[Node], rows: FilledRows, shape: tuple[Any, ...]
    ) -> None:
        self._b, self._buffers, self._rows = b, buffers, rows
        self._heads, self._all, self._length = shape
        self._known: dict[Node, _Known] = {}
        # [1, heads, group, queries, length], once a call has that shape
        self._split: tuple[Any, ...] | None = None
        self._mask: Node | None = None

    def known(self, node: Node) -> _Known:
        """Returns what is known of a value.

        Raises:
            _OtherCallError: a call that it depends on is not one of attention.
        """
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def _find(self, node: Node) -> _Known:
        target: Any = node.target
        arguments: Any = node.args
        if target is aten.view.default:
            found = self.known(bind(node)["self"])
            self._check(self._has_shape(node, found.kind))
            return found
        if target in _UNARY:
            found = self.known(arguments[0])
            return _Known(found.kind, _applied(_UNARY[target], found.masked))
        if target in _SCALARS:
            self._check(bind(node).get("alpha", 1) == 1)
            found = self.known(arguments[0])
            return _Known(found.kind, _applied(_SCALARS[target], found.masked, arguments[1]))
        if target in _BINARY:
            self._check(bind(node).get("alpha", 1) == 1)
            return _of_two(self.known(arguments[0]), self.known(arguments[1]), _BINARY[target])
        if target is aten.where.self:
            return self._masked(node)
        if target is aten._softmax.default:
            self._check(arguments[1] == len(shape_of(node)) - 1)
            self._check(self.known(arguments[0]) == _Known(_Kind.ROWS, -math.inf))
            return _Known(_Kind.ROWS, 0.0)
        if target in (aten.amax.default, aten.sum.dim_IntList):
            bound = bind(node)
            self._check(bound["keepdim"] and [*bound["dim"]] == [len(shape_of(node)) - 1])
            neutral = 0.0 if target is aten.sum.dim_IntList else -math.inf
            self._check(self.known(bound["self"]) == _Known(_Kind.ROWS, neutral))
            return _Known(_Kind.QUERIES)
        if target is aten.bmm.default:
            self._check(self._keys(node) is not None)
            return _Known(_Kind.ROWS)
        self._check(self._has_shape(node, _Kind.HEADS))
        return _Known(_Kind.HEADS)

    def _masked(self, node: Node) -> _Known:
        mask, scores, other = bind(node).values()
        is_of_rows = self.known(scores).kind is _Kind.ROWS
        masked = self._b.facts.constant(other)
        *leading, queries, _ = sizes_key(shape_of(mask))
        if masked is None or masked.numel() != 1 or not is_of_rows or {*leading, 1} != {1}:
            raise _OtherCallError
        positions = self._rows.positions(mask, self._length)
        self._check(self._split is not None and (queries,) == sizes_key(self._split[3:4]))
        self._check(positions is not None and self._mask in (None, mask))
        self._mask = mask
        return _Known(_Kind.ROWS, float(masked))

    def _keys(self, node: Node) -> Node | None:
        """Returns the cache of the keys that a product with queries reads."""
        view: Node = bind(node)["mat2"]
        if sizes_key(shape_of(node)) != sizes_key((self._heads, self._all, self._length)):
            return None
        if view.target is not aten.view.default or bind(view)["self"].target is not aten.permute.default:
            return None
        bound = bind(bind(view)["self"])
        keys: Node = bound["self"]
        is_cache = cache_of(keys, self._buffers) is not None and [*bound["dims"]] == [0, 1, 3, 2]
        is_view = sizes_key(shape_of(view)) == sizes_key(shape_of(bind(view)["self"])[1:])
        return keys if is_cache and is_view else None

    def _has_shape(self, node: Node, kind: _Kind) -> bool:
        """Returns whether a value of a kind has one of its shapes."""
        shape = shape_of(node)
        if self._split is None and kind is _Kind.ROWS and len(shape) == 5:
            self._split = shape
        if self._split is None:
            return False
        heads, group, queries = self._split[1:4]
        last = self._length if kind is _Kind.ROWS else 1
        shapes: list[tuple[Any, ...]] = [(1, heads, group, 1, 1)]
        if kind is not _Kind.HEADS:
            shapes = [(1, heads, group, queries, last), (self._heads, self._all, last)]
        return sizes_key(shape) in [sizes_key(each) for each in shapes]

    def _check(self, is_known: bool) -> None:
        if not is_known:
            raise _OtherCallError

    def filled(self) -> Node:
        """Returns the number of filled rows, after `known`."""
        assert self._mask is not None
        end = self._rows.end(self._mask, self._length)
        assert end is not None
        return end

    def of_head(self, node: Node, head: int, computed: dict[Node, Value]) -> Value:
        """Returns the value of the queries of a head, [group * queries, end] or [group * queries, 1]."""
        if node not in computed:
            computed[node] = self._of_head(node, head, computed)
        return computed[node]

    def _of_head(self, node: Node, head: int, computed: dict[Node, Value]) -> Value:
        b, kind = self._b, self._known[node].kind
        end = self.filled()
        assert self._split is not None
        columns = end.meta["val"] if kind is _Kind.ROWS else 1
        empty = b.empty([self._all, columns], node.meta["val"].dtype)
        target: Any = node.target
        if target is aten.view.default and kind is not _Kind.HEADS:
            return self.of_head(bind(node)["self"], head, computed)
        if node.target is aten.bmm.default:
            keys = self._keys(node)
            assert keys is not None
            queries: Node = bind(node)["self"]
            own = b.empty(shape_of(queries)[1:], queries.meta["val"].dtype)
            query = value_of(b, b.call(aten.select.int, queries, 0, head, val=own))
            return query @ value_of(b, rows_of(b, keys, head, end)).permute(1, 0)
        if node.target is aten.where.self:
            mask, scores, other = bind(node).values()
            of_group = cat([self._rows.mask(mask, end)] * self._split[2], 0)
            own_scores = self.of_head(scores, head, computed).node
            return value_of(b, b.call(aten.where.self, of_group.node, own_scores, other, val=empty))
        if kind is _Kind.HEADS:
            heads, group, count = self._split[1:4]
            one = value_of(b, node).view(heads, group, 1).slice(0, head, head + 1).view(group, 1, 1)
            return one.expand(group, count, 1).view(self._all, 1)
        args: list[Any] = [
            self.of_head(each, head, computed).node if isinstance(each, Node) else each for each in node.args
        ]
        if node.target is aten._softmax.default:
            args[1] = 1
        elif node.target in (aten.amax.default, aten.sum.dim_IntList):
            args[1] = [1]
        return value_of(b, b.call(target, *args, val=empty, **node.kwargs))


def _applied(function: Callable[..., float], masked: float | None, *others: float) -> float | None:
    """Returns the masked elements of a result."""
    if masked is None or not all(isinstance(each, int | float) for each in others):
        return None
    try:
        return function(masked, *others)
    except (ArithmeticError, ValueError):
        return None


def _of_two(first: _Known, second: _Known, stays: float | None) -> _Known:
    """Returns what is known of the result of an operator of two tensors."""
    kinds = {first.kind, second.kind}
    kind = next(each for each in _Kind if each in kinds)
    # A sum of weights that is zero, and a largest score that is infinite, are those of a query whose result
    # is NaN. A divisor of each head may be any number.
    others = {_Kind.QUERIES} if stays == 0.0 else {_Kind.QUERIES, _Kind.HEADS}
    is_kept = first.kind is _Kind.ROWS and second.kind in others and first.masked == stays is not None
    return _Known(kind, stays if is_kept else None)
