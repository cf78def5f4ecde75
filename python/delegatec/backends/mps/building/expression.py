# SPDX-License-Identifier: Apache-2.0
"""Values of a blob's graph with the interface of tensors, for lowerings of several operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas import mps_graph as schema
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.edge.arguments import broadcast

_NO_BOUND: Final = math.inf
_REDUCED_RANK: Final = 4


@dataclass(frozen=True)
class Expression:
    """A value of the graph under construction; each method emits an operation.

    The runtime gives a value of rank 0 the shape [1].

    Attributes:
        builder: the graph.
        id: of the value.
    """

    builder: GraphBuilder
    id: int

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the value."""
        return self.builder.type_of(self.id)[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return self.builder.type_of(self.id)[1]

    def bind(self, node: Node, index: int | None = None) -> None:
        """Makes this the result of a node.

        Args:
            node: the node.
            index: the index of the result, if it has several.
        """
        nodes = [node] if index is None else [user for user in node.users if user.args[1] == index]
        for target in nodes:
            self.builder.alias(target, self.id)

    # ---- elementwise -------------------------------------------------------------------------------------

    def unary(self, operation: int, dtype: torch.dtype | None = None) -> Expression:
        """Emits an operation of `schema.Operation`; by default the result has the same dtype."""
        out = self.builder.temporary(self.shape, dtype or self.dtype)
        self.builder.emit(operation, schema.UnaryT(input1Id=self.id, outputId=out))
        return Expression(self.builder, out)

    def abs(self) -> Expression:
        """Returns the magnitude of floating point."""
        return self.unary(Operation.Abs)

    def exp(self) -> Expression:
        """Returns the exponential."""
        return self.unary(Operation.Exp)

    def log(self) -> Expression:
        """Returns the natural logarithm."""
        return self.unary(Operation.Log)

    def rounded(self) -> Expression:
        """Rounds to the nearest integer, ties to either side."""
        return self.unary(Operation.Round)

    def eq(self, other: Expression | Number) -> Expression:
        """Whether they are equal."""
        return self.compare(Operation.Eq, other)

    def __neg__(self) -> Expression:
        return self.unary(Operation.Neg)

    def __add__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.Add, schema.ScaledBinaryT, other, alpha=1.0)

    def __sub__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.Sub, schema.ScaledBinaryT, other, alpha=1.0)

    def __mul__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.Mul, schema.BinaryT, other)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.Div, schema.DivisionT, other)

    def __pow__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.Pow, schema.BinaryT, other)

    def __rsub__(self, other: Number) -> Expression:
        out = self.builder.temporary(self.shape, self.dtype)
        number = self.builder.scalar(other, self.dtype)
        self.builder.emit(Operation.Sub, schema.ScaledBinaryT(number, self.id, out, alpha=1.0))
        return Expression(self.builder, out)

    def minimum(self, other: Expression | Number) -> Expression:
        """Returns the elementwise minimum."""
        return self._binary(Operation.Minimum, schema.BinaryT, other)

    def __and__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.BitwiseAnd, schema.BinaryT, other)

    def __or__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.BitwiseOr, schema.BinaryT, other)

    def __xor__(self, other: Expression | Number) -> Expression:
        return self._binary(Operation.BitwiseXor, schema.BinaryT, other)

    def compare(self, operation: int, other: Expression | Number) -> Expression:
        """Emits Eq, Ne, Ge, Gt, Le or Lt: bool."""
        return self._binary(operation, schema.BinaryT, other, dtype=torch.bool)

    def where(self, then: Expression, otherwise: Expression) -> Expression:
        """Returns `then` where this bool is true, else `otherwise`; both have the same dtype."""
        assert then.dtype == otherwise.dtype
        shape = broadcast(self.shape, then.shape, otherwise.shape)
        out = self.builder.temporary(shape, then.dtype)
        self.builder.emit(Operation.Where, schema.TernaryT(self.id, then.id, otherwise.id, out))
        return Expression(self.builder, out)

    def clamp(self, low: Number | None = None, high: Number | None = None) -> Expression:
        """Limits elements to `low` and `high`, at least one of which is not None."""
        assert low is not None or high is not None
        bounds = schema.BoundsT(
            -_NO_BOUND if low is None else self.builder.number(low, self.dtype),
            _NO_BOUND if high is None else self.builder.number(high, self.dtype),
        )
        out = self.builder.temporary(self.shape, self.dtype)
        self.builder.emit(Operation.Clamp, schema.UnaryT(input1Id=self.id, outputId=out), bounds)
        return Expression(self.builder, out)

    def to(self, dtype: torch.dtype) -> Expression:
        """Converts to another dtype; to bool by comparison with zero."""
        return Expression(self.builder, self.builder.converted(self.id, dtype))

    # ---- shape -------------------------------------------------------------------------------------------

    def view(self, *shape: int) -> Expression:
        """Returns the elements in another shape without -1."""
        assert math.prod(shape) == math.prod(self.shape)
        return self if shape == self.shape else self._reshaped(Operation.View, shape)

    def expand(self, *shape: int) -> Expression:
        """Broadcasts to a shape of the same rank."""
        assert len(shape) == len(self.shape)
        return self if shape == self.shape else self._reshaped(Operation.Expand, shape)

    def permute(self, *dims: int) -> Expression:
        """Permutes the dimensions."""
        if list(dims) == list(range(len(dims))):
            return self
        out = self.builder.temporary([self.shape[dim] for dim in dims], self.dtype)
        table = schema.PermuteT(input1Id=self.id, outputId=out, numDims=len(dims), perm=list(dims))
        self.builder.emit(Operation.Permute, table)
        return Expression(self.builder, out)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Expression:
        """Returns the elements start, start + step, ... before end of a dimension; none is negative."""
        if (start, end, step) == (0, self.shape[dim], 1):
            return self
        out = self.builder.temporary(self._resized(dim, len(range(start, end, step))), self.dtype)
        table = schema.SliceT(input1Id=self.id, outputId=out, dim=dim, start=start, end=end, step=step)
        self.builder.emit(Operation.Slice, table)
        return Expression(self.builder, out)

    def pad(self, pads: Sequence[int], value: Number = 0) -> Expression:
        """Pads up to three dimensions with a number: before and after the last, then the others."""
        assert len(pads) in (2, 4, 6)
        shape = list(self.shape)
        for position, pad in enumerate(pads):
            shape[-1 - position // 2] += pad
        out = self.builder.temporary(shape, self.dtype)
        table = schema.ConstantPadT(
            input1Id=self.id, outputId=out, pad=list(pads), value=self.builder.number(value, self.dtype)
        )
        self.builder.emit(Operation.ConstantPadND, table)
        return Expression(self.builder, out)

    def index_select(self, dim: int, index: Expression) -> Expression:
        """Gathers elements of a dimension, which the dimensions of the int32 index replace; not checked."""
        out = self.builder.temporary((*self.shape[:dim], *index.shape, *self.shape[dim + 1 :]), self.dtype)
        table = schema.IndexSelectT(input1Id=self.id, outputId=out, dim=dim, indexId=index.id)
        self.builder.emit(Operation.IndexSelect, table)
        return Expression(self.builder, out)

    def pixel_shuffle(self, factor: int) -> Expression:
        """Shuffles [N, C * factor^2, H, W] to [N, C, H * factor, W * factor]."""
        batch, channels, height, width = self.shape
        shape = (batch, channels // factor**2, height * factor, width * factor)
        out = self.builder.temporary(shape, self.dtype)
        table = schema.PixelShuffleT(input1Id=self.id, outputId=out, upscaleFactor=factor)
        self.builder.emit(Operation.PixelShuffle, table)
        return Expression(self.builder, out)

    # ---- along dimensions --------------------------------------------------------------------------------

    def sum(self, dim: int) -> Expression:
        """Returns the sum of float32 along a dimension, kept with size 1: the mean times its size."""
        assert self.dtype == torch.float32 and len(self.shape) <= _REDUCED_RANK
        out = self.builder.temporary(self._resized(dim, 1), self.dtype)
        self.builder.emit(Operation.Mean, schema.MeanT(self.id, out, numDims=1, dims=[dim], keepDims=True))
        return Expression(self.builder, out) * self.shape[dim]

    def __matmul__(self, other: Expression) -> Expression:
        batch = broadcast(self.shape[:-2], other.shape[:-2])
        out = self.builder.temporary((*batch, self.shape[-2], other.shape[-1]), self.dtype)
        self.builder.emit(Operation.MatMul, schema.BinaryT(self.id, other.id, out))
        return Expression(self.builder, out)

    # ---- private -----------------------------------------------------------------------------------------

    def _binary(
        self,
        operation: int,
        table: Callable[..., Any],
        other: Expression | Number,
        dtype: torch.dtype | None = None,
        **fields: Any,
    ) -> Expression:
        if isinstance(other, Expression):
            assert other.dtype == self.dtype, (self.dtype, other.dtype)
            second, shape = other.id, broadcast(self.shape, other.shape)
        else:
            second, shape = self.builder.scalar(other, self.dtype), self.shape
        out = self.builder.temporary(shape, dtype or self.dtype)
        self.builder.emit(operation, table(input1Id=self.id, input2Id=second, outputId=out, **fields))
        return Expression(self.builder, out)

    def _reshaped(self, operation: int, shape: Sequence[int]) -> Expression:
        out = self.builder.temporary(shape, self.dtype)
        table = schema.ViewT(input1Id=self.id, outputId=out, numDims=len(shape), shape=list(shape))
        self.builder.emit(operation, table)
        return Expression(self.builder, out)

    def _resized(self, dim: int, size: int) -> tuple[int, ...]:
        return (*self.shape[:dim], size, *self.shape[dim + 1 :])
