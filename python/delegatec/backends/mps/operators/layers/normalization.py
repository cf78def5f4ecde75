# SPDX-License-Identifier: Apache-2.0
"""Normalization.

Like in ATen, statistics are computed in float32: a variance overflows float16 if the deviation is beyond 256,
and an epsilon such as 1e-12 underflows. The runtime requires every operand, so an absent weight or bias
becomes a one or a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import BatchNormT, LayerNormT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import binary, unary
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, dtype_of, read_results, shape_of
from delegatec.edge.legalize.constraints import only_first_result, rank_of

_WHY: Final = "MPSGraph normalizes four dimensions at most."


def _full(b: GraphBuilder, value: float, shape: Sequence[int], dtype: torch.dtype) -> int:
    """Returns a constant for an absent parameter."""

    def make() -> int:
        return b.constant(torch.full(tuple(shape), value, dtype=dtype), lambda: f"the scalar {value}")

    return b.shared(("full", value, tuple(shape), dtype), make)


def _batch_norm(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(bind(node)["input"])
    shape = shape_of(bound["input"])
    channels = shape[1]

    def parameter(name: str, value: float) -> int:
        given = bound[name]
        return _full(b, value, [channels], dtype) if given is None else b.of(given)

    table = BatchNormT(
        inputId=b.of(bound["input"]),
        meanId=b.of(bound["running_mean"]),
        varId=b.of(bound["running_var"]),
        weightId=parameter("weight", 1.0),
        biasId=parameter("bias", 0.0),
        momentum=bound["momentum"],
        epsilon=b.representable(bound["eps"], dtype),
        output1Id=b.temporary(shape, dtype),
        output2Id=b.temporary([channels], dtype),
        output3Id=b.temporary([channels], dtype),
    )
    b.emit(Operation.BatchNorm, table)
    b.alias(node, table.output1Id, 0)


def _layer_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, normalized = b.in_float32(bound["input"]), bound["normalized_shape"]
    shape = shape_of(bound["input"])
    ones = [1] * len(shape)

    def parameter(name: str, value: float) -> int:
        given = bound[name]
        if given is None:
            return _full(b, value, ones, torch.float32)
        return b.in_float32(given)

    statistics = (*shape[: -len(normalized)], *ones[-len(normalized) :])
    out, mean, variance = (b.temporary(s, torch.float32) for s in (shape, statistics, statistics))
    table = LayerNormT(
        input1Id=x,
        normalizedShape=list(normalized),
        weightId=parameter("weight", 1.0),
        biasId=parameter("bias", 0.0),
        eps=bound["eps"],
        output1Id=out,
        output2Id=mean,
        output3Id=variance,
    )
    b.emit(Operation.LayerNorm, table)
    results = {0: out, 1: mean}
    if 2 in read_results(node):
        results[2] = unary(b, Operation.Rsqrt, binary(b, Operation.Add, variance, float(bound["eps"])))
    for index in read_results(node):
        b.alias(node, b.converted(results[index], node.meta["val"][index].dtype), index)


ROWS: Final = (
    OperatorRow(
        overload("_native_batch_norm_legit_no_training"),
        _batch_norm,
        (
            FLOAT_OPERANDS,
            SAME_DTYPES,
            rank_of("input", (2, 3, 4), _WHY),
            only_first_result(
                "the runtime returns the running mean as the second, and does not have a third."
            ),
        ),
    ),
    OperatorRow(
        overload("native_layer_norm"),
        _layer_norm,
        (FLOAT_OPERANDS, rank_of("input", (1, 2, 3, 4), _WHY)),
        note="in float32; of the third result the runtime gives the variance, and the "
        "reciprocal deviation is computed",
    ),
)
