# SPDX-License-Identifier: Apache-2.0
"""Pools of images.

MPSGraph's ceil mode, whose shapes differ from ATen's (pytorch#154882), is not used: windows beyond the border
are padding. MPSGraph divides by the number of elements of a window, with or without padding. ATen counts
padding but not elements beyond it, and supports other divisors.
"""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation, Pool2dT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind, dtype_of, read_results, tensors
from delegatec.edge.legalize.constraints import rank_of
from delegatec.edge.legalize.rules.pools import is_uniform
from delegatec.edge.legalize.rules.windows import windows_of


def _table(b: GraphBuilder, node: Node) -> Pool2dT:
    rows, columns = windows_of(node, 2)
    result = tensors(node.meta["val"])[0]
    return Pool2dT(
        input1Id=b.of(bind(node)["self"]),
        output1Id=b.temporary(result.shape, result.dtype),
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
    table, shape = _table(b, node), node.meta["val"][0].shape
    table.output2Id = b.temporary(shape, torch.int32)
    b.emit(Operation.MaxPool2DWithIndices, table)
    b.alias(node, table.output1Id, 0)
    if 1 in read_results(node):
        b.alias(node, b.converted(table.output2Id, torch.int64), 1)


def _avg_pool(b: GraphBuilder, node: Node) -> None:
    table, bound = _table(b, node), bind(node)
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
        note="indices are cast to int64 if they are read; which of equal maxima an index names is MPSGraph's "
        "choice, and so is whether a NaN is one",
    ),
    OperatorRow(
        overload("avg_pool2d"),
        _avg_pool,
        (
            *_IMAGES,
            Constraint(
                "argument",
                "MPSGraph divides by the elements of a window, with or without all padding, and by another "
                "number in float32 only: the runtime multiplies by a float32.",
                _divides_otherwise,
            ),
        ),
    ),
)
