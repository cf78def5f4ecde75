# SPDX-License-Identifier: Apache-2.0
"""Clamps of one tensor to scalars: `clamp`, `hardtanh` and `relu`."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.edge.arguments import bind, dtype_of

aten = torch.ops.aten

CLAMPS: Final = frozenset({aten.clamp.default, aten.hardtanh.default, aten.relu.default})


def bounds_of(node: Node) -> tuple[float | int | None, float | int | None]:
    """Returns the bounds of a clamp; None for an absent one."""
    if node.target is aten.relu.default:
        return 0.0, None
    bound = bind(node)
    low, high = (bound.get(key, bound.get(f"{key}_val")) for key in ("min", "max"))
    return low, high


def fused_clamp(node: Node) -> Node | None:
    """Returns the clamp that alone uses a value of floats, and has the same representation."""
    users = list(node.users)
    is_fusible = len(users) == 1 and users[0].target in CLAMPS and dtype_of(node).is_floating_point
    return users[0] if is_fusible else None


def clamp(b: GraphBuilder, node: Node) -> None:
    """Lowers a clamp, unless its operand includes it."""
    if b.is_built(node):
        return
    dtype = dtype_of(node)
    ids = [b.null() if each is None else b.fill(each, dtype) for each in bounds_of(node)]
    source = b.of(bind(node)["self"])
    if node.target is aten.relu.default:
        b.call("aten.relu.default", source, b.result(node))
    else:
        b.call("aten.clamp.default", source, *ids, b.result(node))


def finite_bounds(b: GraphBuilder, node: Node) -> list[int]:
    """Returns the arguments of an operator that clamps its result."""
    low, high = bounds_of(node)
    dtype = dtype_of(node)
    return [
        b.fill(-math.inf if low is None else low, dtype),
        b.fill(math.inf if high is None else high, dtype),
    ]
