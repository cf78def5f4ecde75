# SPDX-License-Identifier: Apache-2.0
"""Moves of elements that lowerings of several rows emit; each function returns the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.edge.symbols import sizes_key

_MOST: Final = 2**31 - 1
_LEAST: Final = -(2**31)


def sliced(
    b: GraphBuilder, x: Array, axis: int, start: Int, stop: Int, shape: Sequence[Any], step: int = 1
) -> Array:
    """Emits a Slice; `shape` is that of the result."""
    out = b.temporary(shape, x.dtype)
    b.emit("Slice", x=x, out=out, axis=Int(axis), start=start, stop=stop, step=step)
    return out


def reversed_along(b: GraphBuilder, x: Array, axis: int) -> Array:
    """Reverses a dimension of any size: runtimes of 1.4.1 lack a Flip. Bounds are clamped to the size."""
    return sliced(b, x, axis, Int(_MOST), Int(_LEAST), x.shape, -1)


def reshaped(b: GraphBuilder, x: Array, shape: Sequence[Any]) -> Array:
    """Emits a Reshape, unless the value has the shape."""
    if sizes_key(shape) == sizes_key(x.shape):
        return x
    out = b.temporary(shape, x.dtype)
    b.emit("Reshape", x=x, out=out, shape=b.shape(shape))
    return out


def transposed(b: GraphBuilder, x: Array, perm: Sequence[int]) -> Array:
    """Emits a Transpose, unless it moves nothing."""
    if list(perm) == list(range(len(perm))):
        return x
    out = b.temporary([x.shape[dim] for dim in perm], x.dtype)
    b.emit("Transpose", x=x, out=out, perm=list(perm))
    return out


def pairs(amounts: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the amounts before and after each dimension."""
    return list(zip(amounts[::2], amounts[1::2], strict=True))


def padded(b: GraphBuilder, x: Array, amounts: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    """Emits a Pad by amounts before and after each dimension, unless all are zero."""
    if not any(map(any, amounts)):
        return x
    shape = [size + before + after for size, (before, after) in zip(x.shape, amounts, strict=True)]
    out = b.temporary(shape, x.dtype)
    flat = [Int(amount) for pair in amounts for amount in pair]
    b.emit("Pad", x=x, out=out, amounts=flat, mode="constant", value=value)
    return out
