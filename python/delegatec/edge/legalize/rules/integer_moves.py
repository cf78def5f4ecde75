# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters for targets that move integers as float32, and do not support bools.

Integers that may exceed 2^24 are split into parts that float32 represents exactly; bools are moved as int8.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_SIGNIFICAND: Final = 24
"""Number of bits of an integer that float32 represents exactly."""

_MASKS: Final = {
    torch.int32: (0xFFFF, ~0xFFFF),
    torch.int64: (0xFFFFFF, 0xFFFFFF << 24, ~0 << 48),
}
"""Masks of parts that float32 represents exactly, and whose sum is the integer."""

MOVED: Final[dict[OpOverload, tuple[str, ...]]] = {
    aten.embedding.default: ("weight",),
    aten.index_select.default: ("self",),
    aten.index.Tensor: ("self",),
    aten.index_put.default: ("self", "values"),
    aten.scatter.src: ("self", "src"),
}
"""Operators that move elements -> the operands with these elements."""


def is_exact(facts: Facts, value: Node) -> bool:
    """Whether float32 represents all elements of a value exactly."""
    dtype = dtype_of(value)
    if dtype not in _MASKS:
        return dtype != torch.bool
    if value.target is aten.bitwise_and.Scalar:
        mask: Any = value.args[1]
        bits = mask.bit_length() if mask >= 0 else 8 * dtype.itemsize - 1
        if bits - (mask & -mask).bit_length() < _SIGNIFICAND:
            return True
    known = facts.of(value)
    return known.low >= -(2**_SIGNIFICAND) and known.high <= 2**_SIGNIFICAND


def _in_parts(names: tuple[str, ...]) -> Rule:
    def rule(builder: Builder, node: Node) -> Node | None:
        bound, target = bind(node), node.target
        assert isinstance(target, OpOverload)
        values = [value_of(builder, bound[name]) for name in names]
        if bound.get("accumulate") or all(is_exact(builder.facts, value.node) for value in values):
            return None

        def moved(*parts: Value) -> Value:
            nodes = {name: part.node for name, part in zip(names, parts, strict=True)}
            val = builder.empty(shape_of(node), parts[0].dtype)
            return Value(builder, builder.call(target, *{**bound, **nodes}.values(), val=val))

        if dtype_of(node) == torch.bool:
            return moved(*(value.to(torch.int8) for value in values)).to(torch.bool).node
        first, *others = (moved(*(value & mask for value in values)) for mask in _MASKS[dtype_of(node)])
        for other in others:
            first = first + other
        return first.node

    return rule


REWRITES: Final = tuple(
    Rewrite(
        target,
        _in_parts(names),
        note="splits integers that may exceed 2^24 into parts that float32 represents exactly; bools as int8",
    )
    for target, names in MOVED.items()
)
