# SPDX-License-Identifier: Apache-2.0
"""Joins movements of elements that follow each other."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def fuse_movement(program: EdgeProgram) -> bool:
    """Replaces a view of a view by one view; likewise permutations and expansions."""
    changed = False
    for node in program.graph.nodes:
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or source.target is not node.target:
            continue
        if node.target in (aten.view.default, aten.expand.default):
            # the outer one has the sizes of the result; an expansion of 1 to n to m does not exist
            node.args = (source.args[0], node.args[1])
            changed = True
        elif node.target is aten.permute.default:
            inner: Any = source.args[1]
            outer: Any = node.args[1]
            node.args = (source.args[0], [inner[dim] % len(inner) for dim in outer])
            changed = True
    return changed
