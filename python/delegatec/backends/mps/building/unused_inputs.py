# SPDX-License-Identifier: Apache-2.0
"""Inputs that no result depends on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand


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
        source, result = operand(builder, node), operand(builder, results[0])
        element = source.view(math.prod(source.shape)).slice(0, 0, 1).to(torch.float32)
        never = element.unary(Operation.Abs).compare(Operation.Lt, 0)
        read = never.where(full(builder, [1], 0, result.dtype), result)
        read.view(*result.shape).bind(results[0])
