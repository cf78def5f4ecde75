# SPDX-License-Identifier: Apache-2.0
"""The format's reduction, the mean, and the minimum of rewrites."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import MeanT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.elementwise.binary import arithmetic
from delegatec.backends.mps.operators.family import family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import operand_dtypes, rank_of, result_dtypes
from delegatec.edge.legalize.rules.reductions import reduced_dims


def _mean(b: GraphBuilder, node: Node) -> None:
    bound, dims = bind(node), reduced_dims(node)
    keepdim = bound.get("keepdim", False)
    table = MeanT(b.of(bound["self"]), b.result(node), numDims=len(dims), dims=dims, keepDims=keepdim)
    b.emit(Operation.Mean, table)


_FLOAT32: Final = (torch.float32,)
_WHY: Final = "MPSGraph's precision of float16 sums is not documented."

ROWS: Final = (
    *(
        OperatorRow(
            overload(name),
            _mean,
            (
                operand_dtypes(_FLOAT32, _WHY),
                result_dtypes(_FLOAT32, _WHY),
                # github.com/pytorch/pytorch/issues/136134: others abort the process.
                rank_of("self", (1, 2, 3, 4), "MPSGraph reduces the last four dimensions only."),
            ),
        )
        for name in ("mean", "mean.dim")
    ),
    *family(
        {"fmin": "Minimum"},
        arithmetic,
        note="emitted by rewrites, which check for NaN separately: MPSGraph may keep or drop it",
    ),
)
