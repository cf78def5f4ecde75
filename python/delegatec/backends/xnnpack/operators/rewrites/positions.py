# SPDX-License-Identifier: Apache-2.0
"""Indices of the largest and the smallest elements, int64, which can only be outputs of a delegate.

The runtime finds maxima and their indices in windows that do not overlap. Among equal elements, the first
index counts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind, read_results
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.legalize.value import Value, cat, table, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_EXACT: Final = 2**24
"""float32 represents all integers up to this one."""
_LARGEST_WINDOW: Final = 2**12
"""The limit of elements of a window, below which the row of an index is exact."""
_FEWEST_ROWS: Final = 8
"""The minimum number of rows that become channels, which the runtime compares in parallel."""
_LONG: Final = 512
"""With fewer rows, the minimum number of elements for which pieces of a row become channels: measured."""
_SWAPPED: Final = (0, 3, 2, 1)
"""[N, C, H, W] as [N, W, H, C], and back."""

_Found = tuple[Value, Value]
"""Maxima and their indices, float32."""


# ---- maxima and their indices ----------------------------------------------------------------------------


def _in_windows(x: Value, kernel: Sequence[int]) -> _Found:
    """Finds maxima in the windows of [N, H, W, C]; indices count their elements column by column.

    The runtime crashes if no operation reads the maxima: the indices are a slice of both.
    """
    batch, *sizes, channels = x.shape
    rows, columns = (size // length for size, length in zip(sizes, kernel, strict=True))
    value = x.builder.empty((batch, rows, columns, channels), torch.float32)
    both = x.builder.call(XNNPACK.argmax_pool2d.default, x.node, list(kernel), val=(value, value))
    maxima, index = (
        Value(x.builder, x.builder.call(operator.getitem, both, result, val=value)) for result in (0, 1)
    )
    return maxima, cat([maxima, index], 1).slice(1, rows, 2 * rows)


def _in_long_rows(x: Value) -> _Found:
    """Finds maxima of a few long rows.

    The pieces of a row are channels, which the runtime compares in parallel. Then the first piece with the
    largest maximum is found: its index selects among the indices in all pieces.
    """
    rows, elements = x.shape
    root = math.isqrt(elements)
    count = next((size for size in range(root, root // 8, -1) if elements % size == 0), root)
    length = -(-elements // count)
    whole = x.pad([0, count * length - elements], -math.inf) if elements % count else x
    pieces = whole.view(rows, count, length).permute(0, 2, 1).view(rows, length, 1, count)
    found, index = _in_windows(pieces, (length, 1))
    maxima, piece = _in_windows(found.view(rows, count, 1, 1), (count, 1))
    order = torch.arange(count, dtype=torch.float32)
    distance = piece.view(rows, 1) - table(x.builder, order)
    chosen = 1.0 - distance.abs().clamp(0.0, 1.0)
    position = index.view(rows, count) + table(x.builder, order * length)
    return maxima, (position * chosen).sum([1], keepdim=True)


def _along_dims(x: Value, dims: Sequence[int], is_largest: bool) -> _Found:
    """Finds extrema along adjacent dimensions."""
    start, end = (dims[0], dims[-1] + 1) if dims else (0, 0)
    before, along, behind = (math.prod(part) for part in (x.shape[:start], x.shape[start:end], x.shape[end:]))
    x = x if is_largest else -x
    is_row = isinstance(behind, int) and behind == 1
    if is_row and isinstance(before, int) and before < _FEWEST_ROWS and along >= _LONG:
        maxima, index = _in_long_rows(x.view(before, along))
    else:
        if is_row:  # rows become channels: the runtime compares several of these in parallel
            x = x.view(before, along).permute(1, 0)
            before, behind = behind, before
        maxima, index = _in_windows(x.view(before, along, 1, behind), (along, 1))
    return (maxima if is_largest else -maxima), index


def _integers(x: Value) -> Value:
    return emit(XNNPACK.to_index.default, x, shape=x.shape, dtype=torch.int64)


# ---- rules -----------------------------------------------------------------------------------------------


def _index(*, is_largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        x = value_of(builder, bind(node)["self"], torch.float32)
        _, index = _along_dims(x, reduced_dims(node), is_largest)
        return _integers(index.view(*node.meta["val"].shape)).node

    return rule


def _extremum_and_index(*, is_largest: bool) -> Rule:
    def rule(builder: Builder, node: Node) -> list[Node | None]:
        bound, (value, _), dims = bind(node), node.meta["val"], reduced_dims(node)
        x = value_of(builder, bound["self"])
        if not reads_index(node):
            reduce = aten.amax.default if is_largest else aten.amin.default
            return [builder.call(reduce, x.node, dims, bound["keepdim"], val=value), None]
        extrema, index = _along_dims(x.to(torch.float32), dims, is_largest)
        return [extrema.view(*value.shape).to(x.dtype).node, _integers(index.view(*value.shape)).node]

    return rule


def _pool(builder: Builder, node: Node) -> list[Node | None]:
    """Computes indices in the image from those in windows.

    The runtime reads windows column by column, and ATen row by row: the image is transposed.
    """
    bound = bind(node)
    x, (rows, columns) = value_of(builder, bound["self"]), bound["kernel_size"]
    maxima, index = _in_windows(x.to(torch.float32).permute(*_SWAPPED), (columns, rows))
    width = x.shape[3]
    row = ((index + 0.5) * (1 / columns)).floor()
    _, across, down, _ = index.shape
    corners = torch.arange(down) * rows * width + torch.arange(across).view(-1, 1) * columns
    corner = table(builder, corners.view(1, across, down, 1).float())
    index = index + row * float(width - columns) + corner
    return [maxima.permute(*_SWAPPED).to(x.dtype).node, _integers(index.permute(*_SWAPPED)).node]


# ---- constraints -----------------------------------------------------------------------------------------


def reads_index(node: Node) -> bool:
    """Whether a call's result, or its second result that a program uses, is an index."""
    return isinstance(node.meta["val"], torch.Tensor) or 1 in read_results(node)


def _varying_sizes(node: Node, _: object) -> str | None:
    sizes, dims = bind(node)["self"].meta["val"].shape, reduced_dims(node)
    apart = [size for dim, size in enumerate(sizes) if dim not in dims and not isinstance(size, int)]
    is_reduced = is_dynamic(sizes[dim] for dim in dims)
    if not reads_index(node) or (len(apart) < 2 and not is_reduced):
        return None
    return f"the sizes {[str(size) for size in sizes]}"


def _other_length(node: Node, _: object) -> str | None:
    sizes, dims = bind(node)["self"].meta["val"].shape, reduced_dims(node)
    if not reads_index(node) or is_dynamic(sizes[dim] for dim in dims):
        return None
    length = math.prod(sizes[dim] for dim in dims)
    return None if 1 < length < _EXACT else f"{length} elements"


def _other_windows(node: Node, _: object) -> str | None:
    if not reads_index(node):
        return "indices are not used"  # the pool alone is a different operation
    bound = bind(node)
    sizes, kernel = bound["self"].meta["val"].shape, list(bound["kernel_size"])
    given = (list(bound["stride"]) or kernel, list(bound["padding"]), list(bound["dilation"]))
    if len(sizes) != 4 or len(kernel) != 2 or given != (kernel, [0, 0], [1, 1]):
        return f"windows of {kernel} with stride {given[0]}, padding {given[1]}, dilation {given[2]}"
    if is_dynamic(sizes):
        return f"the sizes {[str(size) for size in sizes]}"
    whole = all(size % length == 0 for size, length in zip(sizes[2:], kernel, strict=True))
    is_counted = 1 < math.prod(kernel) < _LARGEST_WINDOW and math.prod(sizes[2:]) < _EXACT
    return (
        None
        if is_counted and (whole or not bound["ceil_mode"])
        else f"windows of {kernel} in images of {list(sizes[2:])}"
    )


_CONSTRAINTS: Final = (
    FLOAT_OPERANDS,
    Constraint[object](
        "dynamic-shape",
        "Where indices are used, the reduced dimensions are static, and at most one other size is dynamic.",
        _varying_sizes,
        "make the size a constant of the model",
    ),
    Constraint[object](
        "argument",
        "The dimension has 2 to 2^24 - 1 elements: indices are computed in float32.",
        _other_length,
    ),
)
_SIDE_BY_SIDE: Final = Constraint[object](
    "argument",
    "Indices are used, windows do not overlap, and sizes are static: the runtime has no other form.",
    _other_windows,
)
_NOTE: Final = "a pool; NaN is not found"
_RULES: Final[dict[Any, Rule]] = {
    aten.argmax.default: _index(is_largest=True),
    aten.argmin.default: _index(is_largest=False),
    aten.max.dim: _extremum_and_index(is_largest=True),
    aten.min.dim: _extremum_and_index(is_largest=False),
}

REWRITES: Final = (
    *(Rewrite(target, rule, _CONSTRAINTS, note=_NOTE) for target, rule in _RULES.items()),
    Rewrite(aten.max_pool2d_with_indices.default, _pool, (FLOAT_OPERANDS, _SIDE_BY_SIDE), note=_NOTE),
)
