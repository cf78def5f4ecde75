# SPDX-License-Identifier: Apache-2.0
"""Calls that stay outside of delegates because of NaN: tests for NaN, selections, and conditions.

XNNPACK has no such test, and a delegate selects by minima and maxima: on Arm CPUs, NaN in the value that is
not selected is the result, for example of `where(x == 0, 1, sin(x) / x)`. The portable kernels replace NaN.
And a bool that is computed from NaN depends on the CPU, so that a loop might never end.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.nonfinite import Specials
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.control_flow import COND
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten

_EQUALITIES: Final = (aten.eq.Tensor, aten.ne.Tensor)
_CONDITIONS: Final[dict[Any, str]] = {
    aten.where.self: "condition",
    aten.masked_fill.Scalar: "mask",
    aten.masked_fill.Tensor: "mask",
}
"""Selections -> the argument that is true where the first value is selected."""
_SELECTED: Final = ("self", "other", "value")


def nan_test(node: Node) -> str | None:
    """Returns why a call is a test for NaN, or selects by one; None for other calls."""
    if _is_test(node):
        return "it tests for NaN: NaN is not equal to itself"
    name = _CONDITIONS.get(node.target)
    return "its condition tests for NaN" if name and _follows_from_test(bind(node)[name]) else None


def selects_nan(node: Node, specials: Specials) -> str | None:
    """Returns why a selection stays outside: it may replace NaN; None for other calls.

    Args:
        node: a call.
        specials: of its program.
    """
    if node.target not in _CONDITIONS or not dtype_of(node).is_floating_point:
        return None
    bound = bind(node)
    may_be = any(specials.of(bound[name]).nan for name in _SELECTED if name in bound)
    return "it replaces what may be NaN, such as zero divided by zero" if may_be else None


def decides(node: Node, is_body: bool) -> bool:
    """Whether a call computes one bool that control flow may branch on.

    Args:
        node: a call.
        is_body: whether it is in a body of control flow, whose results may be conditions.
    """
    pending, seen = [node], set[Node]()
    while pending:
        each = pending.pop()
        if not _is_condition(each):
            continue
        for user in each.users:
            if (user.op == "output" and is_body) or (user.target is COND and user.args[0] is each):
                return True
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return False


def _is_condition(node: Node) -> bool:
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.dtype != torch.bool:
        return False
    return all(isinstance(size, int) and size == 1 for size in val.shape)


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
            if each not in seen and not is_scalar(each) and dtype_of(each) == torch.bool
        ]
    return False
