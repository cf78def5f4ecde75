# SPDX-License-Identifier: Apache-2.0
"""Normalisation. The runtime wants every operand, so an absent weight or bias becomes ones or zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import BatchNormT, LayerNormT, Operation
from torch.fx import Node

from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, shape_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, rank_of, same_dtypes, unused_results
from delegatec.edge.arguments import bind


def _or_filled(b: GraphBuilder, operand: Node | None, shape: Sequence[int], fill: float, like: Node) -> int:
    if operand is not None:
        return b.of(operand)
    return b.constant(torch.full(tuple(shape), fill, dtype=dtype_of(like)), lambda: f"the number {fill}")


def _batch_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["input"]
    channels = shape_of(source)[1:2]
    table = BatchNormT(
        inputId=b.of(source),
        meanId=b.of(bound["running_mean"]),
        varId=b.of(bound["running_var"]),
        weightId=_or_filled(b, bound["weight"], channels, 1.0, source),
        biasId=_or_filled(b, bound["bias"], channels, 0.0, source),
        momentum=bound["momentum"],
        epsilon=b.number(bound["eps"], dtype_of(source)),
        output1Id=b.result(node, 0),
        output2Id=b.temporary(channels, dtype_of(source)),
        output3Id=b.temporary(channels, dtype_of(source)),
    )
    b.emit(Operation.BatchNorm, table)


def _layer_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["input"]
    shape = list(bound["normalized_shape"])
    table = LayerNormT(
        input1Id=b.of(source),
        normalizedShape=shape,
        weightId=_or_filled(b, bound["weight"], shape, 1.0, source),
        biasId=_or_filled(b, bound["bias"], shape, 0.0, source),
        eps=b.number(bound["eps"], dtype_of(source)),
        output1Id=b.result(node, 0),
        output2Id=b.temporary(node.meta["val"][1].shape, dtype_of(source)),
        output3Id=b.temporary(node.meta["val"][2].shape, dtype_of(source)),
    )
    b.emit(Operation.LayerNorm, table)


ROWS: Final = (
    OperatorRow(
        overload("_native_batch_norm_legit_no_training"),
        ("BatchNorm",),
        _batch_norm,
        (
            FLOAT_OPERANDS,
            same_dtypes(),
            rank_of("input", range(2, 17), "channels are its dimension 1."),
            unused_results(
                1, "the runtime gives the running mean for the second, and nothing for the third."
            ),
        ),
    ),
    OperatorRow(
        overload("native_layer_norm"),
        ("LayerNorm",),
        _layer_norm,
        (
            FLOAT_OPERANDS,
            same_dtypes(),
            unused_results(1, "the runtime gives the variance for the third, not the reciprocal deviation."),
        ),
    ),
)
