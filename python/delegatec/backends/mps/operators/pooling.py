# SPDX-License-Identifier: Apache-2.0
"""Pooling.

Windows beyond the border (ceil_mode) become padding of the far side: shapes are right by construction.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import CastT, Operation, Pool2dT
from torch.fx import Node

from delegatec.backends.mps.compile_spec import Precision
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import pair, shape_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, not_in_fp16, rank_of
from delegatec.edge.arguments import bind


def _geometry(node: Node) -> dict[str, tuple[int, int]]:
    """Kernel, stride, dilation, near and far padding, each for height and width."""
    bound = bind(node)
    kernel = pair(bound["kernel_size"])
    stride = pair(bound["stride"] or (), kernel)
    padding = pair(bound["padding"] or (), (0,))
    dilation = pair(bound.get("dilation") or (), (1,))
    value: Any = node.meta["val"]
    outputs = (value[0] if isinstance(value, (tuple, list)) else value).shape[-2:]
    inputs = shape_of(bound["self"])[-2:]
    far = [
        max(
            padding[i],
            (outputs[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - inputs[i] - padding[i],
        )
        for i in (0, 1)
    ]
    return {
        "kernel": kernel,
        "stride": stride,
        "dilation": dilation,
        "near": padding,
        "far": (far[0], far[1]),
    }


def _table(b: GraphBuilder, node: Node) -> Pool2dT:
    geometry = _geometry(node)
    (top, left), (bottom, right) = geometry["near"], geometry["far"]
    return Pool2dT(
        input1Id=b.of(bind(node)["self"]),
        kernelHeight=geometry["kernel"][0],
        kernelWidth=geometry["kernel"][1],
        strideHeight=geometry["stride"][0],
        strideWidth=geometry["stride"][1],
        dilationHeight=geometry["dilation"][0],
        dilationWidth=geometry["dilation"][1],
        paddingLeft=left,
        paddingRight=right,
        paddingTop=top,
        paddingBottom=bottom,
    )


def _max_pool(b: GraphBuilder, node: Node) -> None:
    table = _table(b, node)
    table.output1Id = b.result(node, 0)
    # The runtime's indices are int32. Where they are read, a cast makes them the program's int64.
    table.output2Id = b.temporary(node.meta["val"][1].shape, torch.int32)
    b.emit(Operation.MaxPool2DWithIndices, table)
    if any(user.args[1] == 1 for user in node.users):
        indices = CastT(
            input1Id=table.output2Id, outputId=b.result(node, 1), dtype=TO_FORMAT[node.meta["val"][1].dtype]
        )
        b.emit(Operation.Cast, indices)


def _avg_pool(b: GraphBuilder, node: Node) -> None:
    bound, geometry = bind(node), _geometry(node)
    table = _table(b, node)
    table.divisorOverride = bound["divisor_override"] or 0
    # Far padding that ATen does not have is not to be counted; the constraint sees to it that no other is
    # either.
    table.countIncludePad = bound["count_include_pad"] and geometry["near"] == geometry["far"]
    table.output1Id = b.result(node)
    table.output2Id = -1
    b.emit(Operation.AvgPool2D, table)


def _overhang(node: Node, _: Precision) -> str | None:
    bound, geometry = bind(node), _geometry(node)
    if geometry["near"] == geometry["far"] or not bound["count_include_pad"]:
        return None
    return "ceil_mode has windows beyond padding that counts" if geometry["near"] != (0, 0) else None


_NCHW: Final = rank_of("self", (4,), "MPSGraph pools in NCHW.", "add a batch dimension")

ROWS: Final = (
    OperatorRow(
        overload("max_pool2d_with_indices"),
        ("MaxPool2DWithIndices", "Cast"),
        _max_pool,
        (FLOAT_OPERANDS, _NCHW),
        note="indices are cast to int64 if they are read",
    ),
    OperatorRow(
        overload("avg_pool2d"),
        ("AvgPool2D",),
        _avg_pool,
        (
            FLOAT_OPERANDS,
            _NCHW,
            Constraint(
                "argument",
                "With ceil_mode and padding that counts, no window reaches beyond the padding: "
                "MPSGraph would count what is there.",
                _overhang,
                "set count_include_pad=False",
            ),
            not_in_fp16(
                "Not in float16 with divisor_override: the runtime multiplies by a float32.",
                lambda node: "divisor_override is set" if bind(node)["divisor_override"] else None,
            ),
        ),
    ),
)
