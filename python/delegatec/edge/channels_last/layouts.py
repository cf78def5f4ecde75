# SPDX-License-Identifier: Apache-2.0
"""Orders in which the dimensions of a value may be stored.

A layout lists fragments of dimensions from outermost to innermost. A fragment (dim, inner, size) is the
factor `index // inner % size` of the index of a dimension: (1, 1, 64) is all of dimension 1 if it has 64
elements, (1, 8, 8) its groups of eight. Dimensions of size 1 are in no layout. Consecutive fragments of a
dimension are merged, so that equal orders are equal layouts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

Fragment = tuple[int, int, int]
Layout = tuple[Fragment, ...]
Shape = tuple[int, ...]
Axes = tuple[Layout, ...]
"""The fragments in each dimension of a stored tensor; none if its size is 1."""


def row_major(shape: Sequence[int]) -> Layout:
    """Returns the layout in the order of the dimensions."""
    return tuple((dim, 1, size) for dim, size in enumerate(shape) if size != 1)


def own_axes(shape: Sequence[int]) -> Axes:
    """Returns the axes of a value that is stored in its own shape."""
    return tuple(((dim, 1, size),) if size != 1 else () for dim, size in enumerate(shape))


def sizes_of(axes: Iterable[Layout]) -> list[int]:
    """Returns the shape of a stored tensor."""
    return [math.prod(size for _, _, size in axis) for axis in axes]


def merged(fragments: Iterable[Fragment]) -> Layout:
    """Merges consecutive fragments of a dimension."""
    found: list[Fragment] = []
    for dim, inner, size in fragments:
        if found and found[-1][0] == dim and found[-1][1] == inner * size:
            found[-1] = (dim, inner, found[-1][2] * size)
        else:
            found.append((dim, inner, size))
    return tuple(found)


def layout_of(axes: Iterable[Layout]) -> Layout:
    """Returns the order of all fragments."""
    return merged(fragment for axis in axes for fragment in axis)


def renamed(layout: Layout, names: Sequence[int]) -> Layout:
    """Returns a layout with renumbered dimensions: `names[dim]`."""
    return tuple((names[dim], inner, size) for dim, inner, size in layout)


@lru_cache(maxsize=1 << 14)
def viewed(layout: Layout, before: Shape, after: Shape) -> Layout | None:
    """Returns the layout of the same elements under another shape.

    Args:
        layout: of all dimensions of a shape, or of some.
        before: that shape.
        after: a shape of as many elements.

    Returns:
        None if a fragment has no form in the other shape.
    """
    strides = strides_of(before)
    flat = merged((0, strides[dim] * inner, size) for dim, inner, size in layout)
    targets = [
        (stride, dim)
        for dim, (stride, size) in enumerate(zip(strides_of(after), after, strict=True))
        if size != 1
    ]
    found: list[Fragment] = []
    for _, low, size in flat:
        high = low * size
        for stride, dim in targets:  # from the outermost on
            end = stride * after[dim]
            if end <= low or stride >= high:
                continue
            start, stop = max(stride, low), min(end, high)
            if start % low or high % stop or stop % start or start % stride:
                return None
            found.append((dim, start // stride, stop // start))
    return merged(found)


def strides_of(shape: Sequence[int]) -> list[int]:
    """Returns the row-major strides of a shape."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * shape[dim + 1]
    return strides


def refined(axes: Iterable[Layout], by: Iterable[Fragment]) -> Axes | None:
    """Splits fragments where others start or end; None if these split them unevenly."""
    cuts: dict[int, set[int]] = {}
    for dim, inner, size in by:
        cuts.setdefault(dim, set()).update((inner, inner * size))
    found: list[Layout] = []
    for axis in axes:
        parts: list[Fragment] = []
        for dim, inner, size in axis:
            high = inner * size
            for cut in sorted((each for each in cuts.get(dim, ()) if inner < each < high), reverse=True):
                if high % cut or cut % inner:
                    return None
                parts.append((dim, cut, high // cut))
                high = cut
            parts.append((dim, inner, high // inner))
        found.append(tuple(parts))
    return tuple(found)
