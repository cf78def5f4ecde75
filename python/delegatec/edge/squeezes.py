# SPDX-License-Identifier: Apache-2.0
"""Checks of exported programs for `squeeze` of dimensions that have size 1 in some calls only.

torch.export traces dynamic dimensions as if they were never 1, and the exported program keeps them; in eager
mode, the rank of the result then depends on the size, which no program can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import sympy
import torch
from torch._ops import OpOverloadPacket
from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.source import location_of
from delegatec.edge.symbols import bounds

_SQUEEZES: Final[frozenset[OpOverloadPacket]] = frozenset(
    {torch.ops.aten.squeeze, torch.ops.aten.squeeze_, torch.ops.aten.squeeze_copy}
)


def squeeze_problems(nodes: Iterable[Node], ranges: Mapping[Any, Any]) -> Iterator[Diagnostic]:
    """Yields a DC205 for each call that drops a dynamic dimension when its size is 1.

    Args:
        nodes: of an exported program.
        ranges: its `range_constraints`.
    """
    for node in nodes:
        if getattr(node.target, "overloadpacket", None) not in _SQUEEZES:
            continue
        for dim, size in _squeezed(node):
            if isinstance(size, torch.SymInt) and _may_be_one(size, ranges):
                yield Diagnostic(
                    code="DC205",
                    message=f"{node.target} drops dimension {dim} of its operand if its size is 1, and keeps"
                    f" it otherwise; the size is {_words(size, ranges)}",
                    location=location_of(node.meta.get("stack_trace")),
                    node=node.name,
                    expected="a result of one rank",
                    help="squeeze only dimensions that always have size 1, as in x.squeeze(1);"
                    " or start the range of the size in dynamic_shapes at 2",
                )


def _squeezed(node: Node) -> list[tuple[int, Any]]:
    operand = node.args[0]
    assert isinstance(operand, Node)
    shape = operand.meta["val"].shape
    dims: Any = node.args[1] if len(node.args) > 1 else range(len(shape))
    return [(dim % len(shape), shape[dim]) for dim in ([dims] if isinstance(dims, int) else dims) if shape]


def _may_be_one(size: torch.SymInt, ranges: Mapping[Any, Any]) -> bool:
    return 1 in bounds(size, ranges) and sympy.Eq(size.node.expr, 1) is not sympy.false


def _words(size: torch.SymInt, ranges: Mapping[Any, Any]) -> str:
    known = bounds(size, ranges)
    return f"{known.lower} to {known.upper}"
