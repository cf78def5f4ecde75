# SPDX-License-Identifier: Apache-2.0
"""Inputs whose numbers do not matter to any result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand


def read_all_inputs(builder: GraphBuilder, results: Sequence[Node]) -> None:
    """Makes the first of some results one that every input is read for.

    Some operators do not look at an operand, such as a power of zero. The runtime asks the compiled graph how
    many inputs it has, and hands it that many of the delegate's arguments (MPSExecutor::getNumInputs and
    MPSBackend::execute of ExecuTorch 1.4.1). Whether MPSGraph counts what it computes nothing from is not
    documented; so there is no such input. What is read of it is one element, of which something is asked that
    holds of none: whether its size is below zero.

    Args:
        builder: the graph, with all operations.
        results: the nodes that become outputs.
    """
    for node in builder.unread_inputs(results):
        source, result = operand(builder, node), operand(builder, results[0])
        element = source.view(math.prod(source.shape)).slice(0, 0, 1).to(torch.float32)
        never = element.unary(Operation.Abs).compare(Operation.Lt, 0)
        read = never.where(full(builder, [1], 0, result.dtype), result)
        read.view(*result.shape).bind(results[0])
