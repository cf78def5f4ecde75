# SPDX-License-Identifier: Apache-2.0
"""Operations that lowerings of several rows emit; each function returns the id of the result.

Operands of one operation have one dtype. Sizes may be symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder, Size
from delegatec.backends.xnnpack.building.in_place import dims_to_enlarge
from delegatec.backends.xnnpack.flags import TRANSPOSED
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.edge.arguments import broadcast, dtype_of
from delegatec.edge.symbols import largest, same_sizes, sizes_key

_MOST_OPERANDS: Final = 5
"""The maximum number of operands of a concatenation."""

Limits = tuple[float, float]


# ---- elements --------------------------------------------------------------------------------------------


def unary(b: GraphBuilder, operation: int, id: int) -> int:
    """Emits a function of one value, in its dtype."""
    dtype, shape = b.type_of(id)
    out = b.temporary(shape, dtype)
    b.emit(operation, schema.UnaryT(id, out, 0))
    return out


def binary(
    b: GraphBuilder, operation: int, first: int | float, second: int | float, limits: Limits | None = None
) -> int:
    """Emits a function of two values, which broadcast; a float is a scalar, not an id.

    An operand that can be as large as the result at some sizes, and is smaller at others, is kept out of the
    result's memory: there, the result has one element more along a dimension, which is dropped afterwards.
    Products with zero are differences, see `_zeros`.
    """
    dtype = b.dtype_of(first if isinstance(first, int) else int(second))
    ids = [b.scalar(each, dtype) if isinstance(each, float) else each for each in (first, second)]
    assert b.dtype_of(ids[0]) == b.dtype_of(ids[1])
    if operation == Operation.Divide and b.is_zero(ids[0]) and not b.is_zero(ids[1]):
        return _zeros(b, binary(b, operation, 1.0, ids[1]), ids[0], limits)
    if operation == Operation.Multiply and b.is_zero(ids[0]) != b.is_zero(ids[1]):
        zero, other = sorted(ids, key=b.is_zero, reverse=True)
        return _zeros(b, other, zero, limits)
    if (
        operation == Operation.Subtract
        and b.is_zero(ids[0])
        and len(b.shape_of(ids[0])) > len(b.shape_of(ids[1]))
    ):
        return binary(b, Operation.Multiply, ids[1], _minus_one(b, ids[0]), limits)
    dims = dims_to_enlarge(b, *ids)
    ids = [_enlarged(b, id, dim) for id, dim in zip(ids, reversed(dims), strict=True)]
    out = b.temporary(broadcast(*map(b.shape_of, ids)), dtype)
    b.emit(operation, schema.BinaryT(*ids, out, 0), limits)
    return _without_first(b, out, {dim for dim in dims if dim is not None})


def _zeros(b: GraphBuilder, id: int, zero: int, limits: Limits | None) -> int:
    """Emits zeros of the shape that a product of a value and of a zero has; NaN for NaN and infinities.

    The runtime takes the product, and what it knows to be zero or one because of it, for a number: a minimum
    or maximum with it becomes a clamp of the other operand, and lacks dimensions that only the product has.
    """
    if len(b.shape_of(zero)) > len(b.shape_of(id)):
        id = binary(b, Operation.Add, id, zero)
    return binary(b, Operation.Subtract, id, id, limits)


def _minus_one(b: GraphBuilder, zero: int) -> int:
    """Returns a factor with the rank of a zero.

    XNNPACK of August 2026 replaces a difference of zero and a value by the negative of the value, whose rank
    the result has then.
    """
    dtype, shape = b.type_of(zero)
    return b.shared(
        ("minus one", len(shape), dtype), lambda: b.constant(-torch.ones(shape, dtype=dtype), dtype)
    )


def _enlarged(b: GraphBuilder, id: int, dim: int | None) -> int:
    """Emits one element more at the start of a dimension, counted from the end."""
    if dim is None:
        return id
    before = [0] * len(b.shape_of(id))
    before[dim] = 1
    return padded(b, id, before, [0] * len(before), 1.0)


def _without_first(b: GraphBuilder, id: int, dims: Collection[int]) -> int:
    """Emits a value without the first element of dimensions, counted from the end."""
    if not dims:
        return id
    dtype, shape = b.type_of(id)
    offsets = [int(dim - len(shape) in dims) for dim in range(len(shape))]
    out = b.temporary([size - offset for size, offset in zip(shape, offsets, strict=True)], dtype)
    # "to the end" is 0 at offset 0 only; elsewhere the runtime limits the size to what there is
    sizes = [
        (largest(size) or 1) if offset else 0 for size, offset in zip(b.shape_of(out), offsets, strict=True)
    ]
    b.emit(Operation.Slice, schema.SliceT(len(shape), offsets, sizes, id, out, 0))
    return out


def clamp(b: GraphBuilder, id: int, least: float, most: float) -> int:
    """Emits a clamp; infinite bounds do not limit.

    The runtime makes clamps, minima and maxima part of the convolution before them, which fails if their
    joint bounds are equal or empty. So these are bounds of a product.
    """
    dtype, shape = b.type_of(id)
    limits = b.representable(least, dtype), b.representable(most, dtype)
    if dtype.is_floating_point and limits[0] == limits[1]:
        zeros = binary(b, Operation.Multiply, clamp(b, id, -1.0, 1.0), 0.0)
        return binary(b, Operation.Add, zeros, most)
    joint = limits
    if dtype.is_floating_point:
        before = b.clamped.get(id, (-math.inf, math.inf))
        joint = max(before[0], limits[0]), min(before[1], limits[1])
        if joint[0] >= joint[1]:
            id, joint = binary(b, Operation.Multiply, id, 1.0), limits
    out = b.temporary(shape, dtype)
    b.emit(Operation.Clamp, schema.UnaryT(id, out, 0), limits)
    b.clamped[out] = joint
    return out


def converted(b: GraphBuilder, id: int, dtype: torch.dtype) -> int:
    """Returns a value in a dtype: itself, or one shared conversion."""
    if b.dtype_of(id) == dtype:
        return id

    def make() -> int:
        return b.convert(id, b.temporary(b.shape_of(id), dtype))

    return b.shared(("converted", id, dtype), make)


def operand(b: GraphBuilder, value: Node | float, dtype: torch.dtype) -> int:
    """Returns an operand of a call in a dtype: a tensor, or a scalar. Constants are stored in the dtype."""
    if not isinstance(value, Node):
        return b.scalar(value, dtype)
    tensor = b.constant_value(value)
    if tensor is not None and tensor.dtype.is_floating_point and dtype_of(value) != dtype:
        return b.constant(tensor, dtype, value)
    return converted(b, b.of(value), dtype)


# ---- moves -----------------------------------------------------------------------------------------------


def reshaped(b: GraphBuilder, id: int, shape: Sequence[Size]) -> int:
    """Emits a reshape, unless the value has the shape; a reshape of a reshape is one of the first operand.

    At most one size is dynamic.
    """
    dtype = b.dtype_of(id)
    id = b.reshaped.get(id, id)
    if sizes_key(shape) == sizes_key(b.shape_of(id)):
        return id
    if b.is_zero(id):
        return b.shared(("zero", len(shape), dtype), lambda: b.constant(torch.zeros([1] * len(shape)), dtype))
    out = b.temporary(shape, dtype)
    b.reshaped[out] = id
    stored = [size if isinstance(size, int) else 0 for size in shape]
    b.emit(Operation.Reshape, schema.ReshapeT(len(stored), stored, id, out, 0))
    return out


def transposed(b: GraphBuilder, id: int, permutation: Sequence[int]) -> int:
    """Emits a permutation of the dimensions, unless it is the identity; two are composed into one.

    A permuted stack is a stack, too.
    """
    stack, order = b.stacks.get(id), list(permutation)
    id, first = b.transposed.get(id, (id, range(len(b.shape_of(id)))))
    permutation = [first[dim] for dim in permutation]
    dtype, old = b.type_of(id)
    if permutation == list(range(len(old))):
        return id
    out = b.temporary([old[dim] for dim in permutation], dtype)
    b.transposed[out] = id, tuple(permutation)
    b.emit(Operation.Transpose, schema.TransposeT(len(old), permutation, id, out, 0))
    if stack is not None:
        axis, parts = stack
        inner = [dim - (dim > axis) for dim in order if dim != axis]
        b.stacks[out] = order.index(axis), tuple(transposed(b, part, inner) for part in parts)
    return out


def sliced(b: GraphBuilder, id: int, dim: int, start: int, end: int) -> int:
    """Emits a slice of a dimension, unless it is the identity. The other dimensions may be dynamic."""
    dtype, old = b.type_of(id)
    if same_sizes((start, end), (0, old[dim])):
        return id
    out = b.temporary([*old[:dim], end - start, *old[dim + 1 :]], dtype)
    offsets = [start if each == dim else 0 for each in range(len(old))]
    sizes = [end - start if each == dim else 0 for each in range(len(old))]
    b.emit(Operation.Slice, schema.SliceT(len(old), offsets, sizes, id, out, 0))
    return out


def concatenated(b: GraphBuilder, ids: Sequence[int], axis: int) -> int:
    """Emits a concatenation, as a tree if there are more than five operands."""
    if len(ids) == 1:
        return ids[0]
    if len(ids) > _MOST_OPERANDS:
        parts = [ids[start : start + _MOST_OPERANDS] for start in range(0, len(ids), _MOST_OPERANDS)]
        return concatenated(b, [concatenated(b, part, axis) for part in parts], axis)
    dtype, shape = b.type_of(ids[0])
    length: Any = sum(b.shape_of(id)[axis] for id in ids)
    out = b.temporary([*shape[:axis], length, *shape[axis + 1 :]], dtype)
    one, two, three, four, five = [*ids, *[NO_VALUE] * (_MOST_OPERANDS - len(ids))]
    operation = getattr(Operation, f"Concatenate{len(ids)}")
    b.emit(operation, schema.ConcatenateT(axis, one, two, three, four, out, 0, five))
    return out


def padded(b: GraphBuilder, id: int, before: Sequence[int], after: Sequence[int], number: float = 0.0) -> int:
    """Emits padding by a constant, unless it is empty; no padding is negative."""
    if not any(before) and not any(after):
        return id
    dtype, old = b.type_of(id)
    shape = [low + size + high for low, size, high in zip(before, old, after, strict=True)]
    out = b.like(id, shape)
    table = schema.ConstantPadT(list(before), list(after), b.representable(number, dtype), id, out, 0)
    b.emit(Operation.ConstantPad, table)
    return out


# ---- along dimensions ------------------------------------------------------------------------------------


def fully_connected(
    b: GraphBuilder,
    id: int,
    filter: int,
    bias: int = NO_VALUE,
    *,
    is_transposed: bool = False,
    limits: Limits | None = None,
) -> int:
    """Emits a product of the last dimension with a filter [out, in], or [in, out] if it is transposed.

    A bias is added afterwards if it or the filter is computed, and the other is a constant: then the runtime
    reads the constant at each run, but frees it when it loads the layer.
    """
    dtype, shape = b.type_of(id)
    filter, is_transposed = _matrix(b, filter, is_transposed)
    if bias != NO_VALUE and b.draft.is_constant(bias) != b.draft.is_constant(filter):
        product = fully_connected(b, id, filter, is_transposed=is_transposed)
        return binary(b, Operation.Add, product, bias, limits)
    outputs = b.shape_of(filter)[1 if is_transposed else 0]
    out = b.temporary([*shape[:-1], outputs], dtype)
    flags = TRANSPOSED if is_transposed else 0
    b.emit(Operation.FullyConnected, schema.FullyConnectedT(id, filter, bias, out, flags), limits)
    return out


def _matrix(b: GraphBuilder, id: int, is_transposed: bool) -> tuple[int, bool]:
    """Returns the operand of a transpose of the last two dimensions instead of its result, with the flag."""
    source, order = b.transposed.get(id, (id, ()))
    rank = len(order)
    if rank and order == (*range(rank - 2), rank - 1, rank - 2):
        return source, not is_transposed
    return id, is_transposed


def multiplied(b: GraphBuilder, first: int, second: int, *, is_transposed: bool = False) -> int:
    """Emits a product of matrices, whose other dimensions broadcast; a transposed one is [.., n, k]."""
    dtype, shape = b.type_of(first)
    second, is_transposed = _matrix(b, second, is_transposed)
    other = b.shape_of(second)
    columns = other[-2 if is_transposed else -1]
    out = b.temporary([*broadcast(shape[:-2], other[:-2]), shape[-2], columns], dtype)
    flags = TRANSPOSED if is_transposed else 0
    b.emit(Operation.BatchMatrixMultiply, schema.BinaryT(first, second, out, flags))
    return out


def softmax_of_rows(b: GraphBuilder, id: int) -> int:
    """Emits the softmax of the last dimension."""
    return unary(b, Operation.Softmax, id)
