# SPDX-License-Identifier: Apache-2.0
"""Computes once what is computed twice."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.program import EdgeProgram

_NOT_REPEATABLE: Final = torch.Tag.nondeterministic_seeded


def eliminate_common(program: EdgeProgram) -> bool:
    """Replaces a call by an earlier one of the same operator on the same arguments."""
    seen: dict[Any, Node] = {}
    changed = False
    for node in list(program.graph.nodes):
        if node.op != "call_function":
            continue
        if isinstance(node.target, OpOverload) and _NOT_REPEATABLE in node.target.tags:
            continue
        key = (node.target, _key(node.args), _key(tuple(sorted(node.kwargs.items()))))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            program.graph.erase_node(node)
            changed = True
    return changed


def _key(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_key(item) for item in value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    # 1, 1.0 and True are equal to Python, and -0.0 to 0.0
    return (type(value), repr(value)) if isinstance(value, (bool, int, float)) else value
