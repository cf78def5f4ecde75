# SPDX-License-Identifier: Apache-2.0
"""Indices of the largest and the smallest elements, int64, which can only be outputs of a delegate."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.operations import (
    binary,
    converted,
    operand,
    reshaped,
    transposed,
    unary,
)
from delegatec.backends.xnnpack.building.positions import (
    integers,
    largest_alone,
    largest_in_windows,
    largest_of_long_rows,
)
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operators.row import Constraint, Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import SHAPES
from delegatec.edge.arguments import bind, dtype_of, read_results
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.symbols import is_dynamic

_EXACT: Final = 2**24
"""float32 represents all integers up to this one."""
_MOST_PLACES: Final = 2**12
"""The limit of elements of a window, below which the row of an index is exact."""
_FEWEST_ROWS: Final = 8
"""The minimum number of rows that become channels, which the runtime compares in parallel."""
_LONG: Final = 512
"""With fewer rows, the minimum number of elements for which pieces of a row become channels: measured."""
_SWAPPED: Final = (0, 3, 2, 1)
"""[N, C, H, W] as [N, W, H, C], and back."""


def _found(b: QuantizedBuilder, node: Node, is_largest: bool) -> tuple[int, int]:
    """Returns extrema and their indices along the reduced dimensions, [N, 1, 1, C]."""
    x, dims = operand(b, bind(node)["self"], torch.float32), reduced_dims(node)
    shape = b.shape_of(x)
    start, end = (dims[0], dims[-1] + 1) if dims else (0, 0)
    before, along, behind = (math.prod(part) for part in (shape[:start], shape[start:end], shape[end:]))
    is_row = isinstance(behind, int) and behind == 1
    if is_row and isinstance(before, int) and before < _FEWEST_ROWS and along >= _LONG:
        x = reshaped(b, x, [before, along])
        values, places = largest_of_long_rows(b, x if is_largest else unary(b, Operation.Negate, x))
        return (values if is_largest else unary(b, Operation.Negate, values)), places
    if is_row:  # rows become channels: the runtime compares several of these in parallel
        x = transposed(b, reshaped(b, x, [before, along]), [1, 0])
        before, behind = behind, before
    image = reshaped(b, x, [before, along, 1, behind])
    image = image if is_largest else unary(b, Operation.Negate, image)
    values, places = largest_in_windows(b, image, (int(along), 1))
    return (values if is_largest else unary(b, Operation.Negate, values)), places


def _position(is_largest: bool) -> Lower:
    def lower(b: QuantizedBuilder, node: Node) -> None:
        _, places = _found(b, node, is_largest)
        b.alias(node, integers(b, reshaped(b, places, node.meta["val"].shape)))

    return lower


def with_position(is_largest: bool, others: Lower) -> Lower:
    """Returns the lowering of an extremum and its index; `others` is that of the extremum alone."""

    def lower(b: QuantizedBuilder, node: Node) -> None:
        if 1 not in read_results(node):
            others(b, node)
            return
        shape = node.meta["val"][1].shape
        values, places = _found(b, node, is_largest)
        b.alias(node, converted(b, reshaped(b, values, shape), dtype_of(bind(node)["self"])), 0)
        b.alias(node, integers(b, reshaped(b, places, shape)), 1)

    return lower


def reads_position(node: Node) -> bool:
    """Whether a call's result, or its second result that a program uses, is an index."""
    return isinstance(node.meta["val"], torch.Tensor) or 1 in read_results(node)


def _varying_sizes(node: Node, _: object) -> str | None:
    sizes = bind(node)["self"].meta["val"].shape
    dims = reduced_dims(node)
    apart = [size for dim, size in enumerate(sizes) if dim not in dims and not isinstance(size, int)]
    is_reduced = is_dynamic(sizes[dim] for dim in dims)
    if not reads_position(node) or (len(apart) < 2 and not is_reduced):
        return None
    return f"the sizes {[str(size) for size in sizes]}"


def _other_length(node: Node, _: object) -> str | None:
    sizes = bind(node)["self"].meta["val"].shape
    if not reads_position(node) or is_dynamic(sizes[dim] for dim in reduced_dims(node)):
        return None
    length = math.prod(sizes[dim] for dim in reduced_dims(node))
    return None if 1 < length < _EXACT else f"{length} elements"


def _pool(b: QuantizedBuilder, node: Node) -> None:
    """Emits a pool and its indices in the image; among equal elements, the first index.

    The runtime reads windows column by column, and ATen row by row: the image is transposed. It crashes if no
    operation reads the indices, which a rewrite may have used in calls that are removed.
    """
    bound = bind(node)
    (rows, columns), width = bound["kernel_size"], bound["self"].meta["val"].shape[3]
    source = operand(b, bound["self"], torch.float32)
    image = transposed(b, source, _SWAPPED)
    if not reads_position(node):
        values = largest_alone(b, image, (columns, rows))
        b.alias(node, converted(b, transposed(b, values, _SWAPPED), dtype_of(bound["self"])), 0)
        return
    values, places = largest_in_windows(b, image, (columns, rows))
    row = unary(
        b, Operation.Floor, binary(b, Operation.Multiply, binary(b, Operation.Add, places, 0.5), 1 / columns)
    )
    places = binary(b, Operation.Add, places, binary(b, Operation.Multiply, row, float(width - columns)))
    _, across, down, _ = map(int, b.shape_of(places))
    corners = torch.arange(down) * rows * width + torch.arange(across).view(-1, 1) * columns
    corner = b.constant(corners.view(1, across, down, 1).float(), torch.float32)
    found = transposed(b, binary(b, Operation.Add, places, corner), _SWAPPED)
    b.alias(node, converted(b, transposed(b, values, _SWAPPED), dtype_of(bound["self"])), 0)
    b.alias(node, integers(b, found), 1)


def _other_windows(node: Node, _: object) -> str | None:
    if not reads_position(node):
        return "positions are not used"  # the pool alone is a different operation
    bound = bind(node)
    sizes, kernel = bound["self"].meta["val"].shape, list(bound["kernel_size"])
    given = (list(bound["stride"]) or kernel, list(bound["padding"]), list(bound["dilation"]))
    if len(sizes) != 4 or len(kernel) != 2 or given != (kernel, [0, 0], [1, 1]):
        return f"windows of {kernel} with stride {given[0]}, padding {given[1]}, dilation {given[2]}"
    if is_dynamic(sizes):
        return f"the sizes {[str(size) for size in sizes]}"
    whole = all(size % length == 0 for size, length in zip(sizes[2:], kernel, strict=True))
    is_counted = 1 < math.prod(kernel) < _MOST_PLACES and math.prod(sizes[2:]) < _EXACT
    return (
        None
        if is_counted and (whole or not bound["ceil_mode"])
        else f"windows of {kernel} in images of {list(sizes[2:])}"
    )


POSITIONS: Final = (
    Constraint(
        "dynamic-shape",
        "Where indices are used, the reduced dimensions are static, and at most one other size is dynamic.",
        _varying_sizes,
        "make the size a constant of the model",
    ),
    Constraint(
        "argument",
        "The dimension has 2 to 2^24 - 1 elements: indices are computed in float32.",
        _other_length,
    ),
)
_NOTE: Final = "a pooling; NaN is not found"

_SIDE_BY_SIDE: Final = Constraint(
    "argument",
    "Indices are used, windows do not overlap, and sizes are static: the runtime has no other form.",
    _other_windows,
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    *(
        operator_row(name, _position(is_largest), *SHAPES, *POSITIONS, resizes=True, note=_NOTE)
        for name, is_largest in (("argmax", True), ("argmin", False))
    ),
    operator_row("max_pool2d_with_indices", _pool, *SHAPES, _SIDE_BY_SIDE, resizes=True, note=_NOTE),
)
