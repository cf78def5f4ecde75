# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram

_NOT_REPEATABLE: Final = torch.Tag.nondeterministic_seeded


def eliminate_common(program: EdgeProgram) -> bool:
    """Replaces a call by an earlier one of the same operator on the same arguments."""
    seen: dict[Any, Node] = {}
    equal: dict[Node, Node] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, OpOverload) and _NOT_REPEATABLE in node.target.tags:
            continue
        key = (node.target, _key(node.args, equal), _key(tuple(sorted(node.kwargs.items())), equal))
        first = seen.setdefault(key, node)
        if first is not node:
            equal[node] = first
    return redirect(equal)


def _key(value: Any, equal: Mapping[Node, Node]) -> Any:
    if isinstance(value, Node):
        return equal.get(value, value)
    if isinstance(value, (tuple, list)):
        return tuple(_key(item, equal) for item in value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    # 1, 1.0 and True are equal to Python, and -0.0 to 0.0
    return (type(value), repr(value)) if isinstance(value, (bool, int, float)) else value
