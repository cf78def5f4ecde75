# SPDX-License-Identifier: Apache-2.0
"""Views of values with several dynamic sizes; each function returns an id.

The runtime's reshape infers one size. But the runtime broadcasts to the rank of a constant, permutes, slices
and concatenates any sizes, and drops two dimensions of size one with a mean. So dimensions of static sizes
are split and merged while others are dynamic.

A view that splits a dimension is a stack of slices. Operations that read the slices, such as attention of
each head, take them from `GraphBuilder.stacks`, and the stack is never computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder, Size
from delegatec.backends.xnnpack.building.operations import (
    binary,
    concatenated,
    converted,
    reshaped,
    sliced,
    transposed,
)
from delegatec.edge.symbols import sizes_key

_MOST_RANK: Final = 6
_MOST_SLICES: Final = 64
"""The maximum number of slices of a split dimension: more are slower than the runtime's own kernels."""

Group = tuple[tuple[Size, ...], tuple[Size, ...]]
"""Adjacent sizes before and after a view, with the same product."""


def is_viewable(old: Sequence[Size], new: Sequence[Size]) -> bool:
    """Whether `viewed` can emit a view."""
    if _varying(new) < 2:
        return True
    groups = _groups(old, new)
    if groups is None:
        return False
    dropped = sum(have == (1,) and not want for have, want in groups)
    joined = [have for have, _ in groups if len(have) > 1]
    split = [want for _, want in groups if len(want) > 1]
    rank = max(len(old) + dropped % 2, len(old) - dropped + bool(joined))
    slices = max((math.prod(map(int, sizes[:-1])) for sizes in (*joined, *split)), default=1)
    return rank <= _MOST_RANK and slices <= _MOST_SLICES


def viewed(b: GraphBuilder, id: int, shape: Sequence[Size]) -> int:
    """Emits a view with a shape for which `is_viewable` holds."""
    if _varying(shape) < 2:
        return reshaped(b, id, shape)
    groups = _groups(b.shape_of(id), shape)
    assert groups is not None
    ones = [have == (1,) and not want for have, want in groups]
    indices = [index for index, (have, _) in enumerate(groups) for _ in have]
    id = dropped(b, id, [axis for axis, index in enumerate(indices) if ones[index]])
    groups = [group for group, is_one in zip(groups, ones, strict=True) if not is_one]
    axis = 0
    for have, _ in groups:
        for _ in have[1:]:
            id = _joined(b, id, axis)
        axis += bool(have)
    axis, added = 0, []
    for have, want in groups:
        if not have:
            added.append(axis)
        elif len(want) > 1:
            id = _split(b, id, axis - len(added), [int(size) for size in want])
        axis += len(want)
    return inserted(b, id, added)


def _varying(shape: Sequence[Size]) -> int:
    return sum(not isinstance(size, int) for size in shape)


def _groups(old: Sequence[Size], new: Sequence[Size]) -> list[Group] | None:
    """Returns the groups of a view; None if a dynamic size is merged or split.

    Sizes of one that only one of the shapes has are separate groups.
    """
    left, right = (list(zip(sizes, sizes_key(sizes), strict=True)) for sizes in (old, new))
    found: list[Group] = []
    while left or right:
        if left and right and left[0][1] == right[0][1]:
            found.append(((left.pop(0)[0],), (right.pop(0)[0],)))
        elif left and left[0][1] == 1:
            found.append(((left.pop(0)[0],), ()))
        elif right and right[0][1] == 1:
            found.append(((), (right.pop(0)[0],)))
        else:
            have: list[Size] = []
            want: list[Size] = []
            while not have or not want or math.prod(have) != math.prod(want):
                is_left = not have or (bool(want) and math.prod(have) < math.prod(want))
                source, sizes = (left, have) if is_left else (right, want)
                if not source or not isinstance(source[0][0], int):
                    return None
                sizes.append(source.pop(0)[0])
            found.append((tuple(have), tuple(want)))
    return found


def inserted(b: GraphBuilder, id: int, axes: Sequence[int]) -> int:
    """Emits new dimensions of size one.

    Args:
        b: the graph.
        id: the value.
        axes: positions in the result, in order.
    """
    if not axes:
        return id
    rank = len(b.shape_of(id)) + len(axes)
    raised = _raised(b, id, len(axes))
    others = iter(range(len(axes), rank))
    return transposed(b, raised, [axes.index(axis) if axis in axes else next(others) for axis in range(rank)])


def _raised(b: GraphBuilder, id: int, count: int) -> int:
    """Emits new leading dimensions of size one, as a product with a constant of a higher rank."""
    dtype, shape = b.type_of(id)
    ones = [1] * (count + len(shape))
    key = ("ones", tuple(ones), dtype)
    one = b.shared(key, lambda: b.constant(torch.ones(ones, dtype=dtype), dtype))
    return b.shared(("raised", id, count), lambda: binary(b, Operation.Multiply, id, one))


def dropped(b: GraphBuilder, id: int, axes: Sequence[int]) -> int:
    """Emits a value without some dimensions of size one, as means of one element.

    The runtime's mean of types other than float32 writes beyond its buffer when sizes grow.
    """
    axis, parts = b.stacks.get(id, (-1, ()))
    if axis in axes and len(parts) == 1:
        return dropped(b, parts[0], [each - (each > axis) for each in axes if each != axis])
    if not axes:
        return id
    count = len(axes) % 2
    dtype, rank = b.dtype_of(id), len(b.shape_of(id)) + count
    gone = [*range(count), *(axis + count for axis in axes)]
    kept = [axis for axis in range(rank) if axis not in gone]

    def make() -> int:
        whole = converted(b, _raised(b, id, count) if count else id, torch.float32)
        whole = transposed(b, whole, [*kept[:-1], *gone, *kept[-1:]])
        for _ in range(len(gone) // 2):
            shape = b.shape_of(whole)
            out = b.temporary([*shape[:-3], shape[-1]], torch.float32)
            b.emit(Operation.GlobalAveragePooling, schema.UnaryT(whole, out, 0))
            whole = out
        return converted(b, whole, dtype)

    return b.shared(("dropped", id, tuple(axes)), make)


def part(b: GraphBuilder, id: int, dim: int, start: int, end: int) -> int:
    """Emits a slice of a dimension; a slice of a stack consists of some of its parts."""
    axis, parts = b.stacks.get(id, (None, ()))
    if axis == dim and (start, end) != (0, len(parts)):
        return stacked(b, parts[start:end], dim)
    return sliced(b, id, dim, start, end)


def stacked(b: GraphBuilder, parts: Sequence[int], axis: int) -> int:
    """Emits values of one shape as a stack along a new dimension."""
    whole = concatenated(b, [_raised(b, each, 1) for each in parts], 0)
    rank = len(b.shape_of(whole))
    id = transposed(b, whole, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    b.stacks[id] = axis, tuple(parts)
    return id


def _split(b: GraphBuilder, id: int, axis: int, sizes: Sequence[int]) -> int:
    """Splits a dimension into several: those after the first are split in each slice."""
    if len(sizes) == 1:
        return id
    length = math.prod(sizes[1:])
    slices = (sliced(b, id, axis, index * length, (index + 1) * length) for index in range(sizes[0]))
    return stacked(b, [_split(b, each, axis, sizes[1:]) for each in slices], axis)


def _joined(b: GraphBuilder, id: int, axis: int) -> int:
    """Flattens a dimension and the next one."""
    if b.stacks.get(id, (None,))[0] == axis:
        return concatenated(b, b.stacks[id][1], axis)
    rank = len(b.shape_of(id))
    first = transposed(b, id, [axis, *(dim for dim in range(rank) if dim != axis)])
    slices = [sliced(b, first, 0, start, start + 1) for start in range(int(b.shape_of(id)[axis]))]
    return dropped(b, concatenated(b, slices, axis + 1), [0])
