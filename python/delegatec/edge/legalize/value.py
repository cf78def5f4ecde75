# SPDX-License-Identifier: Apache-2.0
"""Values of a graph under construction, with the interface of tensors: each method emits a call of ATen."""

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
from delegatec.edge.symbols import is_scalar, sizes_key

aten = torch.ops.aten

Scalar = bool | int | float


def _unary(target: Callable[..., Any], dtype: torch.dtype | None = None) -> Callable[[Value], Value]:
    """Returns a method for an operator on one tensor; `dtype` is that of the result if it has another one."""
    return lambda self: self._call(target, self, shape=self.shape, dtype=dtype)


def _binary(
    tensors: Callable[..., Any], scalar: Callable[..., Any] | None = None, *, dtype: torch.dtype | None = None
) -> Callable[[Value, Value | Scalar], Value]:
    """Returns a method for the two overloads of an operator: with a tensor, and with a scalar."""

    def method(self: Value, other: Value | Scalar) -> Value:
        if isinstance(other, Value):
            assert other.dtype == self.dtype, (self.dtype, other.dtype)
            return self._call(tensors, self, other, shape=self._broadcast(other), dtype=dtype)
        assert scalar is not None
        return self._call(scalar, self, other, shape=self.shape, dtype=dtype)

    return method


@dataclass(frozen=True)
class Value:
    """The result of a node, a tensor.

    Scalars are converted to the dtype of the other operand; values of one operation have one dtype.
    Dimensions are not negative.

    Attributes:
        builder: emits the calls.
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

    __neg__ = _unary(aten.neg.default)
    __add__ = _binary(aten.add.Tensor, aten.add.Scalar)
    __sub__ = _binary(aten.sub.Tensor, aten.sub.Scalar)
    __mul__ = _binary(aten.mul.Tensor, aten.mul.Scalar)
    __pow__ = _binary(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar)
    __and__ = _binary(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar)
    __or__ = _binary(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar)
    __xor__ = _binary(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar)
    eq = _binary(aten.eq.Tensor, aten.eq.Scalar, dtype=torch.bool)
    ne = _binary(aten.ne.Tensor, aten.ne.Scalar, dtype=torch.bool)
    lt = _binary(aten.lt.Tensor, aten.lt.Scalar, dtype=torch.bool)
    le = _binary(aten.le.Tensor, aten.le.Scalar, dtype=torch.bool)
    gt = _binary(aten.gt.Tensor, aten.gt.Scalar, dtype=torch.bool)
    ge = _binary(aten.ge.Tensor, aten.ge.Scalar, dtype=torch.bool)
    minimum = _binary(aten.minimum.default)  # NaN if an operand is NaN
    maximum = _binary(aten.maximum.default)  # NaN if an operand is NaN
    fmin = _binary(aten.fmin.default)  # the other operand if one is NaN
    abs = _unary(aten.abs.default)
    ceil = _unary(aten.ceil.default)
    floor = _unary(aten.floor.default)
    round = _unary(aten.round.default)  # ties to even
    trunc = _unary(aten.trunc.default)  # toward zero
    exp = _unary(aten.exp.default)
    exp2 = _unary(aten.exp2.default)
    log = _unary(aten.log.default)
    sqrt = _unary(aten.sqrt.default)
    rsqrt = _unary(aten.rsqrt.default)
    reciprocal = _unary(aten.reciprocal.default)
    sin = _unary(aten.sin.default)
    cos = _unary(aten.cos.default)
    atan = _unary(aten.atan.default)
    tanh = _unary(aten.tanh.default)
    sigmoid = _unary(aten.sigmoid.default)
    erf = _unary(aten.erf.default)
    gelu = _unary(aten.gelu.default)
    relu = _unary(aten.relu.default)
    isnan = _unary(aten.isnan.default, torch.bool)
    isinf = _unary(aten.isinf.default, torch.bool)

    def __rsub__(self, other: Scalar) -> Value:
        return self._call(aten.rsub.Scalar, self, other, shape=self.shape)

    def __truediv__(self, other: Value | Scalar) -> Value:
        """Returns the quotient of floating-point values."""
        assert self.dtype.is_floating_point
        return _binary(aten.div.Tensor, aten.div.Scalar)(self, other)

    def truncated_quotient(self, other: Value | Scalar) -> Value:
        """Returns the quotient, rounded toward zero."""
        target = aten.div.Tensor_mode if isinstance(other, Value) else aten.div.Scalar_mode
        return self._call(target, self, other, shape=self._broadcast(other), rounding_mode="trunc")

    def __invert__(self) -> Value:
        """Negates a bool."""
        assert self.dtype == torch.bool
        return _unary(aten.logical_not.default)(self)

    def where(self, then: Value | Scalar, otherwise: Value | Scalar) -> Value:
        """Returns `then` where this bool is true, else `otherwise`. At least one of them is a value."""
        like = then if isinstance(then, Value) else otherwise
        assert isinstance(like, Value)
        first, second = (each if isinstance(each, Value) else like.scalar(each) for each in (then, otherwise))
        assert first.dtype == second.dtype, (first.dtype, second.dtype)
        shape = broadcast(self.shape, first.shape, second.shape)
        return self._call(aten.where.self, self, first, second, shape=shape, dtype=first.dtype)

    def clamp(self, low: Scalar | None = None, high: Scalar | None = None) -> Value:
        """Limits elements to `low` and `high`; keeps NaN."""
        return self._call(aten.clamp.default, self, low, high, shape=self.shape)

    def is_negative(self) -> Value:
        """Whether the sign of floating point is minus, including -0; false for NaN."""
        return self.lt(0.0) | self.reciprocal().lt(0.0)

    def to(self, dtype: torch.dtype) -> Value:
        """Converts to another dtype; to bool by comparison with zero."""
        if dtype == self.dtype:
            return self
        return self._call(aten._to_copy.default, self, shape=self.shape, dtype=dtype, kwargs={"dtype": dtype})

    def widened(self) -> Value:
        """Converts half precision to float32, for sums and statistics."""
        return self.to(torch.float32) if self.dtype in (torch.float16, torch.bfloat16) else self

    # ---- shape -------------------------------------------------------------------------------------------

    def view(self, *shape: int) -> Value:
        """Returns the elements in another shape without -1."""
        assert math.prod(shape) == self.numel
        if sizes_key(shape) == sizes_key(self.shape):
            return self
        return self._call(aten.view.default, self, list(shape), shape=shape)

    def expand(self, *shape: int) -> Value:
        """Broadcasts to a shape of at least the same rank."""
        assert len(shape) >= self.rank
        if sizes_key(shape) == sizes_key(self.shape):
            return self
        return self._call(aten.expand.default, self, list(shape), shape=shape)

    def permute(self, *dims: int) -> Value:
        """Permutes the dimensions."""
        if list(dims) == list(range(len(dims))):
            return self
        return self._call(aten.permute.default, self, list(dims), shape=[self.shape[dim] for dim in dims])

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Value:
        """Returns the elements start, start + step, ... before end of a dimension; none is negative."""
        if sizes_key((start, end, step)) == sizes_key((0, self.shape[dim], 1)):
            return self
        shape = self._resized(dim, (end - start + step - 1) // step)
        steps = () if step == 1 else (step,)
        return self._call(aten.slice.Tensor, self, dim, start, end, *steps, shape=shape)

    def strided(self, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Value:
        """Returns elements at strides in this tensor, which is in row-major order."""
        target = aten.as_strided.default
        return self._call(target, self, list(sizes), list(strides), offset, shape=tuple(sizes))

    def split(self, sizes: Sequence[int], dim: int) -> list[Value]:
        """Splits a dimension into parts of these sizes."""
        values = [self.builder.empty(self._resized(dim, size), self.dtype) for size in sizes]
        call, target = self.builder.call, aten.split_with_sizes.default
        parts = call(target, self.node, list(sizes), dim, val=values)
        return [
            Value(self.builder, call(operator.getitem, parts, index, val=value))
            for index, value in enumerate(values)
        ]

    def chunk(self, count: int, dim: int) -> list[Value]:
        """Returns slices of equal size of a dimension, which it is a multiple of."""
        size = self.shape[dim] // count
        return [self.slice(dim, index * size, (index + 1) * size) for index in range(count)]

    def pad(self, pads: Sequence[int], value: Scalar = 0) -> Value:
        """Pads with a scalar: before and after the last dimension, then the one before it, etc."""
        shape = list(self.shape)
        for position, amount in enumerate(pads):
            shape[-1 - position // 2] += amount
        return self._call(aten.constant_pad_nd.default, self, list(pads), value, shape=shape)

    def index_select(self, dim: int, index: Value) -> Value:
        """Gathers elements of a dimension by an index of rank 1, which replaces the dimension."""
        assert index.rank == 1
        return self._call(
            aten.index_select.default, self, dim, index, shape=self._resized(dim, index.shape[0])
        )

    def take(self, dim: int, index: Value) -> Value:
        """Gathers elements of a dimension, which the dimensions of the nonnegative index replace."""
        return self.index_select(dim, index) if index.rank == 1 else self.index(dim, index)

    def index(self, dim: int, index: Value) -> Value:
        """Gathers elements of a dimension, which the dimensions of the index replace."""
        shape = (*self.shape[:dim], *index.shape, *self.shape[dim + 1 :])
        return self._call(aten.index.Tensor, self, _at(dim, index), shape=shape)

    def put(self, dim: int, index: Value, values: Value) -> Value:
        """Replaces slices of a dimension.

        Args:
            dim: the dimension.
            index: their positions, of rank 1; none is negative.
            values: the slices, of the same rank, which broadcast.
        """
        assert index.rank == 1 and values.rank == self.rank
        return self._call(aten.index_put.default, self, _at(dim, index), values, shape=self.shape)

    def scatter(self, dim: int, index: Value, values: Value) -> Value:
        """Replaces elements at int64 positions along a dimension."""
        return self._call(aten.scatter.src, self, dim, index, values, shape=self.shape)

    # ---- along dimensions --------------------------------------------------------------------------------

    def mean(self, dims: Sequence[int], keepdim: bool = False) -> Value:
        """Returns the mean of floating point along dimensions."""
        shape = [1 if d in dims else size for d, size in enumerate(self.shape) if keepdim or d not in dims]
        return self._call(aten.mean.dim, self, list(dims), keepdim, shape=shape)

    def amax(self, dims: Sequence[int], keepdim: bool = False) -> Value:
        """Returns the maximum along dimensions; NaN if an element is NaN."""
        shape = [1 if d in dims else size for d, size in enumerate(self.shape) if keepdim or d not in dims]
        return self._call(aten.amax.default, self, list(dims), keepdim, shape=shape)

    def sum(self, dims: Sequence[int], keepdim: bool = False) -> Value:
        """Returns the sum along dimensions, in the same dtype."""
        shape = [1 if d in dims else size for d, size in enumerate(self.shape) if keepdim or d not in dims]
        kwargs = {} if self.dtype.is_floating_point else {"dtype": self.dtype}
        return self._call(aten.sum.dim_IntList, self, list(dims), keepdim, shape=shape, kwargs=kwargs)

    def cumsum(self, dim: int) -> Value:
        """Returns the cumulative sum along a dimension, in the same dtype."""
        kwargs = {} if self.dtype.is_floating_point else {"dtype": self.dtype}
        return self._call(aten.cumsum.default, self, dim, shape=self.shape, kwargs=kwargs)

    def softmax(self, dim: int) -> Value:
        """Returns the softmax along a dimension."""
        return self._call(aten._softmax.default, self, dim, False, shape=self.shape)

    def __matmul__(self, other: Value) -> Value:
        """Returns the product of two matrices, or of two batches of the same size."""
        assert self.rank == other.rank and self.rank in (2, 3)
        target = aten.mm.default if self.rank == 2 else aten.bmm.default
        return self._call(target, self, other, shape=(*self.shape[:-1], other.shape[-1]))

    # ---- creation ----------------------------------------------------------------------------------------

    def scalar(self, operand: Scalar, dtype: torch.dtype | None = None) -> Value:
        """Returns a scalar as a 0-d tensor, by default in the same dtype."""
        return full(self.builder, (), operand, dtype or self.dtype)

    # ---- facts -------------------------------------------------------------------------------------------

    def within(self, low: Scalar, high: Scalar) -> Value:
        """Records the range of the elements of this new value."""
        self.node.meta[STATED] = Interval(low, high, not self.dtype.is_floating_point)
        return self

    # ---- private -----------------------------------------------------------------------------------------

    def _broadcast(self, other: Value | Scalar) -> tuple[int, ...]:
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


def value_of(builder: Builder, operand: Node | Scalar, dtype: torch.dtype | None = None) -> Value:
    """Returns the value of an operand: a tensor, optionally in another dtype, or a scalar in that dtype."""
    if isinstance(operand, Node) and not is_scalar(operand):
        value = Value(builder, operand)
        return value if dtype is None else value.to(dtype)
    assert dtype is not None
    return full(builder, (), operand, dtype)


def full(builder: Builder, shape: Sequence[int], fill_value: Node | Scalar, dtype: torch.dtype) -> Value:
    """Returns a tensor filled with a scalar, which may be a node that computes it."""
    value = builder.empty(shape, dtype)
    return Value(builder, builder.call(aten.full.default, list(shape), fill_value, val=value, dtype=dtype))


def arange(builder: Builder, count: int, dtype: torch.dtype, *, start: int = 0, step: int = 1) -> Value:
    """Returns `count` values: start, start + step, ..."""
    value = builder.empty([count], dtype)
    end = start + count * step
    return Value(builder, builder.call(aten.arange.start_step, start, end, step, val=value, dtype=dtype))


def table(builder: Builder, values: torch.Tensor) -> Value:
    """Returns a small constant, deduplicated in the program."""
    return Value(builder, builder.constant(values))


def cat(values: Sequence[Value], dim: int) -> Value:
    """Concatenates values of one dtype along a dimension."""
    first = values[0]
    if len(values) == 1:
        return first
    assert all(value.dtype == first.dtype for value in values)
    shape = (*first.shape[:dim], sum(value.shape[dim] for value in values), *first.shape[dim + 1 :])
    nodes = [value.node for value in values]
    value = first.builder.empty(shape, first.dtype)
    return Value(first.builder, first.builder.call(aten.cat.default, nodes, dim, val=value))
