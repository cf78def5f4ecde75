# SPDX-License-Identifier: Apache-2.0
"""Inputs that no result depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from delegatec_schemas.mps_graph import Operation, SliceT
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import binary, full, reshaped, unary, where


def use_all_inputs(builder: GraphBuilder, results: Sequence[Node]) -> None:
    """Makes the first of some results depend on every input, without changing its value.

    Some operators ignore an operand, such as a power of zero. The runtime queries the compiled graph for the
    number of its inputs, and passes that many of the delegate's arguments (MPSExecutor::getNumInputs and
    MPSBackend::execute of ExecuTorch 1.4.1). Whether MPSGraph counts unused inputs is not documented, so all
    are used, by a condition on one element that is always false: that its magnitude is below zero.

    Args:
        builder: the graph, with all operations.
        results: the nodes that become outputs.
    """
    for node in builder.unused_inputs(results):
        source, result = builder.of(node), builder.of(results[0])
        dtype, shape = builder.type_of(result)
        magnitude = unary(builder, Operation.Abs, builder.converted(_first(builder, source), torch.float32))
        never = binary(builder, Operation.Lt, magnitude, 0.0)
        read = where(builder, never, full(builder, [1], 0, dtype), result)
        builder.alias(results[0], reshaped(builder, read, shape))


def _first(builder: GraphBuilder, source: int) -> int:
    """Emits the first element of a value, of shape [1]."""
    dtype, shape = builder.type_of(source)
    flat = reshaped(builder, source, [math.prod(shape)])
    if math.prod(shape) == 1:
        return flat
    out = builder.temporary([1], dtype)
    builder.emit(Operation.Slice, SliceT(input1Id=flat, outputId=out, dim=0, start=0, end=1, step=1))
    return out
