# SPDX-License-Identifier: Apache-2.0
"""Inputs that a model writes to."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node


def write_to_inputs(prepared: GraphModule) -> None:
    """Lets the copies at the end of a graph write to inputs, in place.

    All readers of an input read its quantized values, and a copy to these would be lost.

    Args:
        prepared: a graph with observers.
    """
    for copy in prepared.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        observed = copy.args[0]
        if observed.op == "call_module":
            (source,) = observed.args
            assert isinstance(source, Node) and source.op == "placeholder"
            copy.update_arg(0, source)
    prepared.recompile()
