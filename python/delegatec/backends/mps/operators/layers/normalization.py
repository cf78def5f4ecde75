# SPDX-License-Identifier: Apache-2.0
"""Normalization.

Like in ATen, statistics are computed in float32: a variance overflows float16 if the deviation is beyond 256,
and an epsilon such as 1e-12 underflows. The runtime requires every operand, so an absent weight or bias
becomes a one or a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import BatchNormT, LayerNormT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import only_first_result, rank_of
from delegatec.edge.nodes import dtype_of, read_results

_MOST_RANK: Final = 4


def _number(b: GraphBuilder, number: float, shape: Sequence[int], dtype: torch.dtype) -> int:
    """Returns a constant for an absent parameter."""

    def make() -> int:
        return b.constant(torch.full(tuple(shape), number, dtype=dtype), lambda: f"the number {number}")

    return b.shared(("number", number, tuple(shape), dtype), make)


def _finish(results: dict[int, Expression], node: Node) -> None:
    for index in read_results(node):
        value = node.meta["val"][index]
        results[index].view(*value.shape).to(value.dtype).bind(node, index)


def _batch_norm(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(bind(node)["input"])
    x = operand(b, bound["input"])
    batch, channels, *sizes = x.shape
    if len(x.shape) > _MOST_RANK:
        x = x.view(batch, channels, math.prod(sizes))

    def parameter(name: str, number: float) -> int:
        given = bound[name]
        return _number(b, number, [channels], dtype) if given is None else b.of(given)

    out = Expression(b, b.temporary(x.shape, dtype))
    table = BatchNormT(
        inputId=x.id,
        meanId=b.of(bound["running_mean"]),
        varId=b.of(bound["running_var"]),
        weightId=parameter("weight", 1.0),
        biasId=parameter("bias", 0.0),
        momentum=bound["momentum"],
        epsilon=b.number(bound["eps"], dtype),
        output1Id=out.id,
        output2Id=b.temporary([channels], dtype),
        output3Id=b.temporary([channels], dtype),
    )
    b.emit(Operation.BatchNorm, table)
    _finish({0: out}, node)


def _layer_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = Expression(b, b.in_float32(bound["input"]))
    shape = tuple(bound["normalized_shape"])
    if len(x.shape) > _MOST_RANK:
        shape = (math.prod(shape),)
        x = x.view(math.prod(x.shape) // shape[0], *shape)
    ones = [1] * len(x.shape)

    def parameter(name: str, number: float) -> int:
        given = bound[name]
        if given is None:
            return _number(b, number, ones, torch.float32)
        return Expression(b, b.in_float32(given)).view(*shape).id

    statistics = (*x.shape[: -len(shape)], *ones[-len(shape) :])
    out, mean, variance = (b.temporary(s, torch.float32) for s in (x.shape, statistics, statistics))
    table = LayerNormT(
        input1Id=x.id,
        normalizedShape=list(shape),
        weightId=parameter("weight", 1.0),
        biasId=parameter("bias", 0.0),
        eps=bound["eps"],
        output1Id=out,
        output2Id=mean,
        output3Id=variance,
    )
    b.emit(Operation.LayerNorm, table)
    results = {0: Expression(b, out), 1: Expression(b, mean)}
    if 2 in read_results(node):
        results[2] = (Expression(b, variance) + bound["eps"]).unary(Operation.Rsqrt)
    _finish(results, node)


ROWS: Final = (
    OperatorRow(
        overload("_native_batch_norm_legit_no_training"),
        _batch_norm,
        (
            FLOAT_OPERANDS,
            SAME_DTYPES,
            rank_of("input", range(2, 17), "channels are its dimension 1."),
            only_first_result(
                "the runtime returns the running mean as the second, and does not have a third."
            ),
        ),
        note="merges the dimensions after the channels if there are more than two",
    ),
    OperatorRow(
        overload("native_layer_norm"),
        _layer_norm,
        (FLOAT_OPERANDS,),
        note="in float32, of rank 4 at most; the runtime's third result is the variance, from which the "
        "reciprocal deviation is computed",
    ),
)
