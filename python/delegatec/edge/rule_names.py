# SPDX-License-Identifier: Apache-2.0
"""Names of the rules that create nodes, for `--print-after`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

RULE: Final = "rule"
"""Key in a node's metadata: the names of the rules that led to it, the last of which created it."""

CURRENT_PASS: Final[ContextVar[str]] = ContextVar("current_pass", default="")
"""The pass that runs, which creates the nodes that no rule does; empty outside of passes."""


def rule_name(rule: Callable[..., Any]) -> str:
    """Returns the module and the function of a rule; for a closure, the function that returned it."""
    function = getattr(rule, "rule", getattr(rule, "func", rule))
    return _name(function.__module__, getattr(function, "__qualname__", type(function).__qualname__))


@cache
def _name(module: str, function: str) -> str:
    return f"{module.removeprefix('delegatec.')}.{function.partition('.<locals>')[0]}"
