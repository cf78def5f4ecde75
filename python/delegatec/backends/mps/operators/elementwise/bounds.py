# SPDX-License-Identifier: Apache-2.0
"""How far apart the elements of a value can be, read off the operators that made it."""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind

aten = torch.ops.aten

_BOUNDED: Final[dict[OpOverload, float]] = {
    aten._softmax.default: 1.0,
    aten.cos.default: 2.0,
    aten.erf.default: 2.0,
    aten.sigmoid.default: 1.0,
    aten.sin.default: 2.0,
    aten.tanh.default: 2.0,
}
_CLAMPS: Final[dict[OpOverload, tuple[str, str]]] = {
    aten.clamp.default: ("min", "max"),
    aten.hardtanh.default: ("min_val", "max_val"),
}
_MOVES: Final = frozenset(
    {
        aten.add.Scalar,
        aten.clone.default,
        aten.expand.default,
        aten.neg.default,
        aten.permute.default,
        aten.rsub.Scalar,
        aten.squeeze.dims,
        aten.sub.Scalar,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""What keeps distances: moves, shifts, reflections."""


def spread_of(node: Node) -> float | None:
    """The largest distance between two elements that are numbers, if operators bound it."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return None
    if target in _BOUNDED:
        return _BOUNDED[target]
    arguments = bind(node)
    if target in _CLAMPS:
        low, high = (arguments[name] for name in _CLAMPS[target])
        return None if low is None or high is None else max(0.0, float(high) - float(low))
    inner = arguments.get("self")
    if not isinstance(inner, Node) or arguments.get("alpha", 1) != 1:
        return None
    spread = spread_of(inner) if target in (*_MOVES, aten.mul.Scalar, aten.div.Scalar) else None
    if spread is None or target in _MOVES:
        return spread
    other = abs(float(arguments["other"]))
    if target is aten.mul.Scalar:
        return spread * other
    return spread / other if other else None
