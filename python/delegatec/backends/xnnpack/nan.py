# SPDX-License-Identifier: Apache-2.0
"""Tests for NaN, and choices by them, which stay outside of delegates.

XNNPACK has no such test, and a delegate chooses by minima and maxima: NaN in the value that is not chosen may
be the result. The portable kernels replace NaN.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.symbols import is_number

aten = torch.ops.aten

_EQUALITIES: Final = (aten.eq.Tensor, aten.ne.Tensor)
_CONDITIONS: Final[dict[Any, str]] = {
    aten.where.self: "condition",
    aten.masked_fill.Scalar: "mask",
    aten.masked_fill.Tensor: "mask",
}
"""Choices -> the argument that is true where the first value is chosen."""


def nan_test(node: Node) -> str | None:
    """Returns why a call is a test for NaN, or chooses by one; None for other calls."""
    if _is_test(node):
        return "it tests for NaN: NaN is not equal to itself"
    name = _CONDITIONS.get(node.target)
    return "its condition tests for NaN" if name and _follows_from_test(bind(node)[name]) else None


def _is_test(node: Node) -> bool:
    if node.target is not aten.isnan.default and node.target not in _EQUALITIES:
        return False
    bound = bind(node)
    is_same = bound["self"] is bound.get("other", bound["self"])
    return is_same and dtype_of(bound["self"]).is_floating_point


def _follows_from_test(condition: Node) -> bool:
    pending, seen = [condition], set[Node]()
    while pending:
        node = pending.pop()
        if _is_test(node):
            return True
        seen.add(node)
        pending += [
            each
            for each in node.all_input_nodes
            if each not in seen and not is_number(each) and dtype_of(each) == torch.bool
        ]
    return False
