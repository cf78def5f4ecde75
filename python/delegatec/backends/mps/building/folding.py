# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, as expressions.

The one reduction of the format is Mean. Others are made of it where that is exact, or fold a dimension in
half until one element is left: as many steps as its size has binary digits, over ever fewer elements, with
operations whose meaning is certain for every dtype. Max pooling would be one step, but how it takes NaN and
minus infinity is not documented, it has no integers, and what it gives for ties is not either.

Dimensions are not negative; those that are reduced stay with size 1 if `keepdim`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from delegatec_schemas.mps_graph import Operation

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.values import full

Combine = Callable[[Expression, Expression], Expression]


def folded(x: Expression, dims: Sequence[int], combine: Combine, keepdim: bool = False) -> Expression:
    """Combines the elements along dimensions by an operation that is associative and commutative."""
    if not x.shape:
        return x
    shape = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    first, last = min(dims), max(dims) + 1
    if len(set(dims)) == last - first:  # They lie together: one dimension, which takes fewer steps.
        x = x.view(*x.shape[:first], math.prod(x.shape[first:last]), *x.shape[last:])
        dims = [first]
    for dim in dims:
        x = _folded(x, dim, combine)
    kept = [size for dim, size in enumerate(x.shape) if dim not in dims]
    return x.view(*shape) if keepdim else x.view(*kept)


def _folded(x: Expression, dim: int, combine: Combine) -> Expression:
    odd = []
    while (size := x.shape[dim]) > 1:
        half = size // 2
        if size % 2:
            odd.append(x.slice(dim, size - 1, size))
        x = combine(x.slice(dim, 0, half), x.slice(dim, half, 2 * half))
    for element in odd:
        x = combine(x, element)
    return x


def any_of(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """Whether an element of a bool is true: the mean of zeros and ones is above zero then, exactly."""
    if not dims:
        return x
    return x.to(torch.float32).mean(dims, keepdim).compare(Operation.Gt, 0)


def all_of(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """Whether all elements of a bool are true."""
    return any_of(x.unary(Operation.LogicalNot), dims, keepdim).unary(Operation.LogicalNot)


def sum_of(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """The sum, in the dtype of the operand: of integers exact, and modulo their range as ATen's.

    That of numbers is the mean times their count, in float32. Where the sum of float16 is beyond its range,
    it is infinite, as in ATen, and not before. That of bools is whether one is true.
    """
    if not x.shape:
        return x
    if x.dtype == torch.bool:
        return any_of(x, dims, keepdim)
    if not x.dtype.is_floating_point:
        return folded(x, dims, lambda a, b: a + b, keepdim)
    count = math.prod(x.shape[dim] for dim in dims)
    return (x.to(torch.float32).mean(dims, keepdim) * count).to(x.dtype)


def prod_of(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """The product, in the dtype of the operand; of float16 in float32, of bools whether all are true."""
    if x.dtype == torch.bool:
        return all_of(x, dims, keepdim)
    wide = x.to(torch.float32) if x.dtype.is_floating_point else x
    return folded(wide, dims, lambda a, b: a * b, keepdim).to(x.dtype)


def amin(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """The smallest element, NaN if there is one: MPSGraph's minimum passes over NaN, ATen's does not.

    (github.com/pytorch/pytorch/issues/143976)
    """
    if x.dtype == torch.bool:
        return all_of(x, dims, keepdim)
    least = folded(x, dims, Expression.minimum, keepdim)
    if not x.dtype.is_floating_point or not x.shape:
        return least
    spoiled = any_of(x.unary(Operation.Isnan, torch.bool), dims, keepdim)
    return spoiled.where(full(x.builder, [], math.nan, x.dtype), least)


def amax(x: Expression, dims: Sequence[int], keepdim: bool = False) -> Expression:
    """The largest element, NaN if there is one."""
    if x.dtype == torch.bool:
        return any_of(x, dims, keepdim)
    return reversed_order(amin(reversed_order(x), dims, keepdim))


def reversed_order(x: Expression) -> Expression:
    """Numbers in the opposite order: of integers -1 - x, which cannot overflow where -x does."""
    return -x if x.dtype.is_floating_point else -1 - x


def running_sum(x: Expression, dim: int) -> Expression:
    """The sum of the elements up to each, of floating point in float32.

    Each step adds to every element what the one before it by 1, 2, 4, ... stands for.
    """
    shape = x.shape
    total = x.to(torch.float32) if x.dtype.is_floating_point else x
    total = total.view(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
    step = 1
    while step < shape[dim]:
        total = total + total.slice(1, 0, shape[dim] - step).pad([0, 0, step, 0])
        step *= 2
    return total.view(*shape).to(x.dtype)
