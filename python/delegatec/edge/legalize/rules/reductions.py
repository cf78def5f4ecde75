# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, for targets that only have means.

A sum is a mean times a count; other reductions are trees, which halve a dimension in each iteration until one
element remains. Dimensions are not negative; reduced ones are kept with size 1 if `keepdim`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

Reduce = Callable[[Value, Sequence[int], bool], Value]
Combine = Callable[[Value, Value], Value]


# ---- on values -------------------------------------------------------------------------------------------


def merged_mean(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Returns the mean, computed on a matrix: the reduced dimensions are merged into its columns."""
    if not x.shape:
        return x
    kept = [dim for dim in range(x.rank) if dim not in dims]
    rows = math.prod(x.shape[dim] for dim in kept)
    joined = x.permute(*kept, *sorted(dims)).view(rows, math.prod(x.shape[dim] for dim in dims))
    return joined.mean([1]).view(*_reduced(x.shape, dims, keepdim))


def folded(x: Value, dims: Sequence[int], combine: Combine, keepdim: bool = False) -> Value:
    """Reduces dimensions by an associative and commutative operation, as a tree."""
    if not x.shape:
        return x
    result = _reduced(x.shape, dims, keepdim)
    first, last = min(dims), max(dims) + 1
    if len(set(dims)) == last - first:  # Adjacent: one dimension takes fewer iterations.
        x = x.view(*x.shape[:first], math.prod(x.shape[first:last]), *x.shape[last:])
        dims = [first]
    for dim in dims:
        x = _reduce_dim(x, dim, combine)
    return x.view(*result)


def _reduce_dim(x: Value, dim: int, combine: Combine) -> Value:
    odd = []
    while (size := x.shape[dim]) > 1:
        half = size // 2
        if size % 2:
            odd.append(x.slice(dim, size - 1, size))
        x = combine(x.slice(dim, 0, half), x.slice(dim, half, 2 * half))
    for element in odd:
        x = combine(x, element)
    return x


def _reduced(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> list[int]:
    return [1 if dim in dims else size for dim, size in enumerate(shape) if keepdim or dim not in dims]


def any_of(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Whether any element of a bool is true: whether the mean of zeros and ones is positive."""
    return x.to(torch.float32).mean(dims, keepdim).gt(0.0) if dims else x


def all_of(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Whether all elements of a bool are true."""
    return ~any_of(~x, dims, keepdim)


def sum_of(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Returns the sum in the dtype of the operand, in which integers wrap around.

    Floating point is summed in float32, so that only the result of a float16 sum may overflow. The sum of
    bools is whether any is true.
    """
    if not x.shape:
        return x
    if x.dtype == torch.bool:
        return any_of(x, dims, keepdim)
    if not x.dtype.is_floating_point:
        return folded(x, dims, Value.__add__, keepdim)
    count = math.prod(x.shape[dim] for dim in dims)
    return (x.widened().mean(dims, keepdim) * float(count)).to(x.dtype)


def prod_of(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Returns the product in the dtype of the operand; float16 in float32, of bools whether all are true."""
    if x.dtype == torch.bool:
        return all_of(x, dims, keepdim)
    return folded(x.widened(), dims, Value.__mul__, keepdim).to(x.dtype)


def amin(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Returns the minimum; NaN if any element is NaN, checked separately: targets' minima may drop it."""
    if x.dtype == torch.bool:
        return all_of(x, dims, keepdim)
    least = folded(x, dims, Value.fmin, keepdim)
    if not x.dtype.is_floating_point or not x.shape:
        return least
    return any_of(x.isnan(), dims, keepdim).where(math.nan, least)


def amax(x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
    """Returns the maximum; NaN if any element is NaN."""
    if x.dtype == torch.bool:
        return any_of(x, dims, keepdim)
    return reversed_order(amin(reversed_order(x), dims, keepdim))


def reversed_order(x: Value) -> Value:
    """Returns values in reversed order: -1 - x for integers, which does not overflow."""
    return -x if x.dtype.is_floating_point else -1 - x


# ---- on nodes --------------------------------------------------------------------------------------------


def reduced_dims(node: Node) -> list[int]:
    """Returns the reduced dimensions, ascending: an empty list means all, except for `any`."""
    bound = bind(node)
    rank = len(shape_of(bound["self"]))
    dims = bound.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    if not dims and (dims is None or node.target is not aten.any.dims):
        dims = range(rank)
    return sorted(positive(dim, rank) for dim in dims) if rank else []


def _reduction(reduce: Reduce, dtype: torch.dtype | None = None) -> Rule:
    """Returns a rule that reduces the operand in a dtype, by default that of the result."""

    def rule(builder: Builder, node: Node) -> Node:
        return _applied(node, reduce, value_of(builder, bind(node)["self"], dtype or dtype_of(node)))

    return rule


def _applied(node: Node, reduce: Reduce, x: Value) -> Node:
    return reduce(x, reduced_dims(node), bind(node).get("keepdim", False)).to(dtype_of(node)).node


def _mean(builder: Builder, node: Node) -> Node:
    """Computes a mean in float32; merges the dimensions of float32 operands."""
    is_float = dtype_of(node) == dtype_of(bind(node)["self"]) == torch.float32
    rule = _reduction(merged_mean) if is_float else _average(Value.mean)
    result: Node = rule(builder, node)
    return result


def _average(reduce: Reduce) -> Rule:
    """Returns a rule for a mean or a sum, of floating point in float32."""

    def rule(builder: Builder, node: Node) -> Node:
        dtype = dtype_of(node)
        wide = torch.float32 if dtype.is_floating_point else dtype
        return _applied(node, reduce, value_of(builder, bind(node)["self"], wide))

    return rule


def _sum(builder: Builder, node: Node) -> Node:
    """Computes a sum; integers that the program converted to floating point are summed exactly."""
    source = bind(node)["self"]
    if source.target is aten._to_copy.default and dtype_of(node).is_floating_point:
        (integers,) = source.all_input_nodes
        if not dtype_of(integers).is_floating_point:
            return _applied(node, sum_of, value_of(builder, integers, torch.int64))
    result: Node = _average(sum_of)(builder, node)
    return result


def _least(builder: Builder, node: Node) -> Node:
    """Reverses the order of the elements, and then that of their maximum."""
    x, dims = value_of(builder, bind(node)["self"]), reduced_dims(node)
    if not dims:
        return x.amax(dims).node
    return reversed_order(reversed_order(x).amax(dims, bind(node).get("keepdim", False))).node


def _product_of_halves(builder: Builder, node: Node) -> Node | None:
    """Multiplies float16 or bfloat16 in float32, by the same operator: a tree needs static sizes."""
    x, *others = bind(node).values()
    if dtype_of(x) not in (torch.float16, torch.bfloat16) or dtype_of(node) != dtype_of(x):
        return None
    wide = node.meta["val"].to(torch.float32)
    found = builder.call(node.target, value_of(builder, x, torch.float32).node, *others, val=wide)
    return value_of(builder, found, dtype_of(node)).node


def _sum_of_halves(builder: Builder, node: Node) -> Node | None:
    """Adds float16 or bfloat16 in float32, by the same operator."""
    bound = bind(node)
    x = bound["self"]
    if dtype_of(x) not in (torch.float16, torch.bfloat16) or dtype_of(node) != dtype_of(x):
        return None
    wide = node.meta["val"].to(torch.float32)
    operand = value_of(builder, x, torch.float32).node
    found = builder.call(node.target, operand, bound["dim"], bound["keepdim"], val=wide)
    return value_of(builder, found, dtype_of(node)).node


_ADDED: Final = "the mean times the number of elements, in float32; a tree of additions for integers"
_MULTIPLIED: Final = "a tree of products; floating point in float32"
_LEAST: Final = "a tree of minima; NaN is checked separately"
_ANY: Final = "whether the mean of zeros and ones is positive"

REWRITES: Final = (
    *(
        Rewrite(target, _mean, (FLOAT_RESULT,), note="in float32")
        for target in (aten.mean.default, aten.mean.dim)
    ),
    Rewrite(aten.sum.dim_IntList, _sum, note=_ADDED),
    *(
        Rewrite(target, _reduction(prod_of), note=_MULTIPLIED)
        for target in (aten.prod.default, aten.prod.dim_int)
    ),
    *(
        Rewrite(target, _reduction(amax), note="the negated minimum of negated elements")
        for target in (aten.amax.default, aten.max.default)
    ),
    *(Rewrite(target, _reduction(amin), note=_LEAST) for target in (aten.amin.default, aten.min.default)),
    *(
        Rewrite(target, _reduction(any_of, torch.bool), note=_ANY)
        for target in (aten.any.default, aten.any.dim, aten.any.dims)
    ),
)

PRODUCTS_IN_FLOAT32: Final = tuple(
    Rewrite(target, _product_of_halves, (FLOAT_RESULT,), note="in float32")
    for target in (aten.prod.default, aten.prod.dim_int)
)

SUMS_IN_FLOAT32: Final = (Rewrite(aten.sum.dim_IntList, _sum_of_halves, (FLOAT_RESULT,), note="in float32"),)

MINIMUM_BY_MAXIMUM: Final = tuple(
    Rewrite(target, _least, note="the negated maximum of negated elements")
    for target in (aten.amin.default, aten.min.default)
)
