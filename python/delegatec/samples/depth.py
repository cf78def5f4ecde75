# SPDX-License-Identifier: Apache-2.0
"""How many operators in a row round sums: what rounding errors of a program grow with."""

from __future__ import annotations

from typing import Final

import torch
from torch.export import ExportedProgram

# Prefixes of operators that add products, or elements; attention adds twice. Those tagged as reductions need
# no name here.
_SUMS: Final = {
    "linear": 1,
    "matmul": 1,
    "mm": 1,
    "addmm": 1,
    "bmm": 1,
    "baddbmm": 1,
    "einsum": 1,
    "bilinear": 1,
    "convolution": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "layer_norm": 1,
    "group_norm": 1,
    "instance_norm": 1,
    "rms_norm": 1,
    "softmax": 1,
    "_softmax": 1,
    "log_softmax": 1,
    "_log_softmax": 1,
    "scaled_dot_product_attention": 2,
}


def rounding_depth(program: ExportedProgram) -> int:
    """Returns the largest number of operators on a path from inputs to outputs that add many elements.

    Their orders of summation differ between a program and eager mode. The bodies of control flow count once.
    """
    return _depth(program.graph_module)


def _depth(module: torch.fx.GraphModule) -> int:
    depths: dict[torch.fx.Node, int] = {}
    for node in module.graph.nodes:
        before = max((depths[each] for each in node.all_input_nodes), default=0)
        depths[node] = before + _sums(module, node)
    return max(depths.values(), default=0)


def _sums(module: torch.fx.GraphModule, node: torch.fx.Node) -> int:
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        bodies = [getattr(module, str(each.target)) for each in node.all_input_nodes if each.op == "get_attr"]
        return max((_depth(body) for body in bodies if isinstance(body, torch.fx.GraphModule)), default=0)
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0
    name = node.target._schema.name.rpartition("::")[2]
    return _SUMS.get(name, int(torch.Tag.reduction in node.target.tags))
