# SPDX-License-Identifier: Apache-2.0
"""Pooling of images.

MPSGraph's ceil mode, whose shapes differ from ATen's (pytorch#154882), is not used: windows beyond the border
are padding. MPSGraph divides by the number of elements of a window, with or without padding. ATen counts
padding but not elements beyond it, and supports other divisors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation, Pool2dT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import binary, unary, where
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind, dtype_of, read_results, tensors
from delegatec.edge.legalize.constraints import rank_of
from delegatec.edge.legalize.rules.pooling import is_uniform
from delegatec.edge.legalize.rules.windows import windows_of


def _table(b: GraphBuilder, node: Node, source: int) -> Pool2dT:
    rows, columns = windows_of(node, 2)
    return Pool2dT(
        input1Id=source,
        output1Id=b.temporary(tensors(node.meta["val"])[0].shape, b.type_of(source)[0]),
        output2Id=-1,
        kernelHeight=rows.kernel,
        kernelWidth=columns.kernel,
        strideHeight=rows.stride,
        strideWidth=columns.stride,
        dilationHeight=rows.dilation,
        dilationWidth=columns.dilation,
        paddingLeft=columns.before,
        paddingRight=columns.after,
        paddingTop=rows.before,
        paddingBottom=rows.after,
    )


def _max_pool(b: GraphBuilder, node: Node) -> None:
    """Also pools a NaN mask: ATen returns NaN, and the index of a window's last NaN."""
    x = b.of(bind(node)["self"])
    dtype, shape = b.type_of(x)
    has_index = 1 in read_results(node)
    largest, index = _maxima(b, node, x)
    mark = _positions(b, shape) if has_index else b.scalar(1.0, dtype)
    marks = where(b, unary(b, Operation.Isnan, x), mark, b.scalar(0.0, b.type_of(mark)[0]))
    last, _ = _maxima(b, node, marks)
    found = binary(b, Operation.Gt, last, 0.0)
    b.alias(node, where(b, found, b.scalar(math.nan, dtype), largest), 0)
    if has_index:
        position = b.converted(binary(b, Operation.Sub, last, 1.0), torch.int32)
        b.alias(node, b.converted(where(b, found, position, index), torch.int64), 1)


def _positions(b: GraphBuilder, shape: Sequence[int]) -> int:
    """Adds the indices into an image, counted from 1, which float32 represents exactly up to 2^24."""
    height, width = shape[-2:]
    positions = torch.arange(1.0, 1 + height * width).view(1, 1, height, width)
    return b.shared(("positions", height, width), lambda: b.constant(positions, lambda: "positions"))


def _maxima(b: GraphBuilder, node: Node, source: int) -> tuple[int, int]:
    """Emits a pool, and returns its values and int32 indices."""
    table = _table(b, node, source)
    table.output2Id = b.temporary(node.meta["val"][1].shape, torch.int32)
    b.emit(Operation.MaxPool2DWithIndices, table)
    return table.output1Id, table.output2Id


def _avg_pool(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    table = _table(b, node, b.of(bound["self"]))
    if bound["divisor_override"] and not is_uniform(node):
        table.divisorOverride = bound["divisor_override"]
    table.countIncludePad = bool(bound["divisor_override"]) or _counts_padding(node)
    b.emit(Operation.AvgPool2D, table)
    b.alias(node, table.output1Id)


def _counts_padding(node: Node) -> bool:
    return bool(bind(node)["count_include_pad"] and any(axis.before for axis in windows_of(node, 2)))


def _divides_otherwise(node: Node, _: object) -> str | None:
    divisor = bind(node)["divisor_override"]
    if is_uniform(node) or (dtype_of(node) == torch.float32 if divisor else not _counts_padding(node)):
        return None
    return f"divisor_override is {divisor}" if divisor else "windows of several sizes"


_IMAGES: Final = (FLOAT_OPERANDS, rank_of("self", (4,), "MPSGraph pools batches of images."))

ROWS: Final = (
    OperatorRow(
        overload("max_pool2d_with_indices"),
        _max_pool,
        _IMAGES,
        note="NaN is pooled separately; indices are cast to int64 if they are read; which of equal maxima an "
        "index names is MPSGraph's choice",
    ),
    OperatorRow(
        overload("avg_pool2d"),
        _avg_pool,
        (
            *_IMAGES,
            Constraint(
                "argument",
                "All windows count all padding or none, or divisor_override is given in float32: "
                "MPSGraph has no other divisors.",
                _divides_otherwise,
            ),
        ),
    ),
)
