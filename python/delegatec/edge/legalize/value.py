# SPDX-License-Identifier: Apache-2.0
"""Values of a graph under construction, written as one writes tensors: each method adds a call of ATen."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import STATED
from delegatec.edge.analysis.interval import Interval
from delegatec.edge.arguments import broadcast
from delegatec.edge.builder import Builder

aten = torch.ops.aten

Number = bool | int | float


@dataclass(frozen=True)
class Value:
    """The tensor that a node stands for. Shapes are static.

    Numbers beside a value take its dtype; two values of an operation have one dtype. Dimensions are counted
    from the front.

    Attributes:
        builder: adds the calls.
        node: the node.
    """

    builder: Builder
    node: Node

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the tensor."""
        dtype: torch.dtype = self.node.meta["val"].dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the tensor."""
        return tuple(self.node.meta["val"].shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    # ---- element by element ------------------------------------------------------------------------------

    def __neg__(self) -> Value:
        return self._unary(aten.neg.default)

    def __add__(self, other: Value | Number) -> Value:
        return self._binary(aten.add.Tensor, aten.add.Scalar, other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._binary(aten.sub.Tensor, aten.sub.Scalar, other)

    def __rsub__(self, other: Number) -> Value:
        return self._call(aten.rsub.Scalar, self, other, shape=self.shape)

    def __mul__(self, other: Value | Number) -> Value:
        return self._binary(aten.mul.Tensor, aten.mul.Scalar, other)

    def __truediv__(self, other: Value | Number) -> Value:
        """The quotient of floating-point values."""
        assert self.dtype.is_floating_point
        return self._binary(aten.div.Tensor, aten.div.Scalar, other)

    def truncated_quotient(self, other: Value | Number) -> Value:
        """The quotient, rounded toward zero."""
        target = aten.div.Tensor_mode if isinstance(other, Value) else aten.div.Scalar_mode
        return self._call(target, self, other, shape=self._broadcast(other), rounding_mode="trunc")

    def __pow__(self, exponent: Value | Number) -> Value:
        return self._binary(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, exponent)

    def __and__(self, other: Value | Number) -> Value:
        return self._binary(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, other)

    def __or__(self, other: Value | Number) -> Value:
        return self._binary(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._binary(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, other)

    def __invert__(self) -> Value:
        """The negation of a bool."""
        assert self.dtype == torch.bool
        return self._unary(aten.logical_not.default)

    def eq(self, other: Value | Number) -> Value:
        """Whether they are equal."""
        return self._binary(aten.eq.Tensor, aten.eq.Scalar, other, torch.bool)

    def ne(self, other: Value | Number) -> Value:
        """Whether they differ."""
        return self._binary(aten.ne.Tensor, aten.ne.Scalar, other, torch.bool)

    def lt(self, other: Value | Number) -> Value:
        """Whether this is less."""
        return self._binary(aten.lt.Tensor, aten.lt.Scalar, other, torch.bool)

    def le(self, other: Value | Number) -> Value:
        """Whether this is less or equal."""
        return self._binary(aten.le.Tensor, aten.le.Scalar, other, torch.bool)

    def gt(self, other: Value | Number) -> Value:
        """Whether this is greater."""
        return self._binary(aten.gt.Tensor, aten.gt.Scalar, other, torch.bool)

    def ge(self, other: Value | Number) -> Value:
        """Whether this is greater or equal."""
        return self._binary(aten.ge.Tensor, aten.ge.Scalar, other, torch.bool)

    def where(self, then: Value | Number, otherwise: Value | Number) -> Value:
        """`then` where this, a bool, is true. At least one is a value, and a number takes its dtype."""
        like = then if isinstance(then, Value) else otherwise
        assert isinstance(like, Value)
        first, second = (each if isinstance(each, Value) else like.scalar(each) for each in (then, otherwise))
        assert first.dtype == second.dtype, (first.dtype, second.dtype)
        shape = broadcast(self.shape, first.shape, second.shape)
        return self._call(aten.where.self, self, first, second, shape=shape, dtype=first.dtype)

    def minimum(self, other: Value) -> Value:
        """The smaller of each two, NaN where one is."""
        return self._binary(aten.minimum.default, None, other)

    def maximum(self, other: Value) -> Value:
        """The larger of each two, NaN where one is."""
        return self._binary(aten.maximum.default, None, other)

    def fmin(self, other: Value) -> Value:
        """The smaller of each two, the other one where one is NaN."""
        return self._binary(aten.fmin.default, None, other)

    def clamp(self, low: Number | None = None, high: Number | None = None) -> Value:
        """No less than `low` and no more than `high`; NaN stays."""
        return self._call(aten.clamp.default, self, low, high, shape=self.shape)

    def abs(self) -> Value:
        """The magnitude."""
        return self._unary(aten.abs.default)

    def ceil(self) -> Value:
        """Rounded up, of floating point."""
        return self._unary(aten.ceil.default)

    def floor(self) -> Value:
        """Rounded down, of floating point."""
        return self._unary(aten.floor.default)

    def round(self) -> Value:
        """Rounded to the nearest integer, halves to the even one, of floating point."""
        return self._unary(aten.round.default)

    def trunc(self) -> Value:
        """Rounded toward zero, of floating point."""
        return self._unary(aten.trunc.default)

    def exp(self) -> Value:
        """The exponential."""
        return self._unary(aten.exp.default)

    def exp2(self) -> Value:
        """Two to this power."""
        return self._unary(aten.exp2.default)

    def log(self) -> Value:
        """The natural logarithm."""
        return self._unary(aten.log.default)

    def sqrt(self) -> Value:
        """The square root."""
        return self._unary(aten.sqrt.default)

    def rsqrt(self) -> Value:
        """The reciprocal of the square root."""
        return self._unary(aten.rsqrt.default)

    def reciprocal(self) -> Value:
        """One over this."""
        return self._unary(aten.reciprocal.default)

    def sin(self) -> Value:
        """The sine."""
        return self._unary(aten.sin.default)

    def cos(self) -> Value:
        """The cosine."""
        return self._unary(aten.cos.default)

    def atan(self) -> Value:
        """The arc tangent."""
        return self._unary(aten.atan.default)

    def tanh(self) -> Value:
        """The hyperbolic tangent."""
        return self._unary(aten.tanh.default)

    def sigmoid(self) -> Value:
        """1 / (1 + exp(-x))."""
        return self._unary(aten.sigmoid.default)

    def relu(self) -> Value:
        """The larger of this and zero."""
        return self._unary(aten.relu.default)

    def isnan(self) -> Value:
        """Whether each is NaN."""
        return self._unary(aten.isnan.default, torch.bool)

    def isinf(self) -> Value:
        """Whether each is infinite, of either sign."""
        return self._unary(aten.isinf.default, torch.bool)

    def is_negative(self) -> Value:
        """Whether the sign is minus, that of zero too; false for NaN. Of floating point."""
        return self.lt(0.0) | self.reciprocal().lt(0.0)

    def to(self, dtype: torch.dtype) -> Value:
        """In another dtype; to bool by comparison with zero."""
        if dtype == self.dtype:
            return self
        return self._call(aten._to_copy.default, self, shape=self.shape, dtype=dtype, kwargs={"dtype": dtype})

    def widened(self) -> Value:
        """In float32 if it is of half precision: what sums and statistics are taken in."""
        return self.to(torch.float32) if self.dtype in (torch.float16, torch.bfloat16) else self

    # ---- shape -------------------------------------------------------------------------------------------

    def view(self, *shape: int) -> Value:
        """The same elements in another shape; all sizes are given."""
        assert math.prod(shape) == self.numel
        if shape == self.shape:
            return self
        return self._call(aten.view.default, self, list(shape), shape=shape)

    def expand(self, *shape: int) -> Value:
        """Broadcast to a shape of the same rank."""
        assert len(shape) == self.rank
        return (
            self if shape == self.shape else self._call(aten.expand.default, self, list(shape), shape=shape)
        )

    def permute(self, *dims: int) -> Value:
        """Dimensions in another order."""
        if list(dims) == list(range(len(dims))):
            return self
        return self._call(aten.permute.default, self, list(dims), shape=[self.shape[dim] for dim in dims])

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Value:
        """Elements start, start + step, ... before end of a dimension; none of them is negative."""
        if (start, end, step) == (0, self.shape[dim], 1):
            return self
        shape = self._resized(dim, len(range(start, end, step)))
        steps = () if step == 1 else (step,)
        return self._call(aten.slice.Tensor, self, dim, start, end, *steps, shape=shape)

    def unfold(self, dim: int, size: int, step: int) -> Value:
        """The runs of so many elements of a dimension, of which each starts `step` behind the one before it.

        Runs have the dimension's place; a new last dimension goes along a run.
        """
        runs = (self.shape[dim] - size) // step + 1
        return self._call(aten.unfold.default, self, dim, size, step, shape=(*self._resized(dim, runs), size))

    def split(self, sizes: Sequence[int], dim: int) -> list[Value]:
        """Parts of these sizes, one after the other along a dimension."""
        values = [self.builder.empty(self._resized(dim, size), self.dtype) for size in sizes]
        call, target = self.builder.call, aten.split_with_sizes.default
        parts = call(target, self.node, list(sizes), dim, val=values)
        return [
            Value(self.builder, call(operator.getitem, parts, index, val=value))
            for index, value in enumerate(values)
        ]

    def pad(self, pads: Sequence[int], value: Number = 0) -> Value:
        """Padded by a number; before and after the last dimension, then the one before it, and so on."""
        shape = list(self.shape)
        for position, amount in enumerate(pads):
            shape[-1 - position // 2] += amount
        return self._call(aten.constant_pad_nd.default, self, list(pads), value, shape=shape)

    def index_select(self, dim: int, index: Value) -> Value:
        """Elements of a dimension, at places of an index of rank 1, which has that dimension's place."""
        assert index.rank == 1
        return self._call(
            aten.index_select.default, self, dim, index, shape=self._resized(dim, index.shape[0])
        )

    def take(self, dim: int, index: Value) -> Value:
        """Elements of a dimension, whose place the dimensions of the index take; none of it is negative."""
        return self.index_select(dim, index) if index.rank == 1 else self.index(dim, index)

    def index(self, dim: int, index: Value) -> Value:
        """Elements of a dimension, whose place the dimensions of the index take."""
        shape = (*self.shape[:dim], *index.shape, *self.shape[dim + 1 :])
        return self._call(aten.index.Tensor, self, _at(dim, index), shape=shape)

    def put(self, dim: int, index: Value, values: Value) -> Value:
        """With slices along a dimension replaced, at places of an index of rank 1.

        Args:
            dim: the dimension.
            index: the places; none is negative.
            values: the slices; of the rank of this, broadcast.
        """
        assert index.rank == 1 and values.rank == self.rank
        return self._call(aten.index_put.default, self, _at(dim, index), values, shape=self.shape)

    def scatter(self, dim: int, index: Value, values: Value) -> Value:
        """With elements replaced, each line along a dimension at int64 places of its own."""
        return self._call(aten.scatter.src, self, dim, index, values, shape=self.shape)

    # ---- along dimensions --------------------------------------------------------------------------------

    def mean(self, dims: Sequence[int], keepdim: bool = False) -> Value:
        """The mean along dimensions, of floating point."""
        shape = [1 if d in dims else size for d, size in enumerate(self.shape) if keepdim or d not in dims]
        return self._call(aten.mean.dim, self, list(dims), keepdim, shape=shape)

    def sum(self, dims: Sequence[int], keepdim: bool = False) -> Value:
        """The sum along dimensions, in the dtype of this."""
        shape = [1 if d in dims else size for d, size in enumerate(self.shape) if keepdim or d not in dims]
        kwargs = {} if self.dtype.is_floating_point else {"dtype": self.dtype}
        return self._call(aten.sum.dim_IntList, self, list(dims), keepdim, shape=shape, kwargs=kwargs)

    def cumsum(self, dim: int) -> Value:
        """The sum of the elements up to each along a dimension, in the dtype of this."""
        kwargs = {} if self.dtype.is_floating_point else {"dtype": self.dtype}
        return self._call(aten.cumsum.default, self, dim, shape=self.shape, kwargs=kwargs)

    def softmax(self, dim: int) -> Value:
        """The softmax along a dimension."""
        return self._call(aten._softmax.default, self, dim, False, shape=self.shape)

    def __matmul__(self, other: Value) -> Value:
        """The product of two matrices, or of two batches of them with one size."""
        assert self.rank == other.rank and self.rank in (2, 3)
        target = aten.mm.default if self.rank == 2 else aten.bmm.default
        return self._call(target, self, other, shape=(*self.shape[:-1], other.shape[-1]))

    # ---- made of nothing ---------------------------------------------------------------------------------

    def scalar(self, number: Number, dtype: torch.dtype | None = None) -> Value:
        """A number as a tensor of rank 0, in the dtype of this or another one."""
        return full(self.builder, (), number, dtype or self.dtype)

    # ---- what is known otherwise -------------------------------------------------------------------------

    def within(self, low: Number, high: Number) -> Value:
        """This, which has just been made, with what is known of its elements."""
        self.node.meta[STATED] = Interval(low, high, not self.dtype.is_floating_point)
        return self

    # ---- private -----------------------------------------------------------------------------------------

    def _unary(self, target: Callable[..., Any], dtype: torch.dtype | None = None) -> Value:
        return self._call(target, self, shape=self.shape, dtype=dtype)

    def _binary(
        self,
        tensors: Callable[..., Any],
        scalar: Callable[..., Any] | None,
        other: Value | Number,
        dtype: torch.dtype | None = None,
    ) -> Value:
        if isinstance(other, Value):
            assert other.dtype == self.dtype, (self.dtype, other.dtype)
            return self._call(tensors, self, other, shape=self._broadcast(other), dtype=dtype)
        assert scalar is not None
        return self._call(scalar, self, other, shape=self.shape, dtype=dtype)

    def _broadcast(self, other: Value | Number) -> tuple[int, ...]:
        return broadcast(self.shape, other.shape) if isinstance(other, Value) else self.shape

    def _resized(self, dim: int, size: int) -> tuple[int, ...]:
        return (*self.shape[:dim], size, *self.shape[dim + 1 :])

    def _call(
        self,
        target: Callable[..., Any],
        *args: Any,
        shape: Sequence[int],
        dtype: torch.dtype | None = None,
        kwargs: dict[str, Any] | None = None,
        **more: Any,
    ) -> Value:
        nodes = [each.node if isinstance(each, Value) else each for each in args]
        value = self.builder.empty(shape, dtype or self.dtype)
        return Value(self.builder, self.builder.call(target, *nodes, val=value, **(kwargs or {}), **more))


def _at(dim: int, index: Value) -> list[Node | None]:
    return [None] * dim + [index.node]


def value_of(builder: Builder, operand: Node | Number, dtype: torch.dtype | None = None) -> Value:
    """The value of an operand: a node, converted to a dtype if one is given, or a number in that dtype."""
    if isinstance(operand, Node):
        value = Value(builder, operand)
        return value if dtype is None else value.to(dtype)
    assert dtype is not None
    return full(builder, (), operand, dtype)


def full(builder: Builder, shape: Sequence[int], number: Number, dtype: torch.dtype) -> Value:
    """A number in a whole shape."""
    value = builder.empty(shape, dtype)
    return Value(builder, builder.call(aten.full.default, list(shape), number, val=value, dtype=dtype))


def arange(builder: Builder, count: int, dtype: torch.dtype, *, start: int = 0, step: int = 1) -> Value:
    """start, start + step, ... of a count."""
    value = builder.empty([count], dtype)
    end = start + count * step
    return Value(builder, builder.call(aten.arange.start_step, start, end, step, val=value, dtype=dtype))


def table(builder: Builder, values: torch.Tensor) -> Value:
    """A small constant that a rule makes; equal ones of a program are one."""
    return Value(builder, builder.constant(values))


def cat(values: Sequence[Value], dim: int) -> Value:
    """Values of one dtype, one after the other along a dimension."""
    first = values[0]
    if len(values) == 1:
        return first
    assert all(value.dtype == first.dtype for value in values)
    shape = (*first.shape[:dim], sum(value.shape[dim] for value in values), *first.shape[dim + 1 :])
    nodes = [value.node for value in values]
    value = first.builder.empty(shape, first.dtype)
    return Value(first.builder, first.builder.call(aten.cat.default, nodes, dim, val=value))
