# SPDX-License-Identifier: Apache-2.0
"""Rules that replace the matches of a pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import Pattern


def fusion(pattern: Pattern, replacement: Callable[..., Any]) -> dict[Any, Callable[[Builder, Node], Any]]:
    """Returns the rule that replaces the matches of a pattern, for each target of its calls.

    Args:
        pattern: of a call.
        replacement: receives the builder, the call and the variables of the pattern by their names; returns
            the result, or None if this match does not qualify: then the next one is tried.
    """

    def rule(builder: Builder, node: Node) -> Any:
        for match in pattern.matches(node, Match(builder.facts.constant)):
            result = replacement(builder, node, **match.values)
            if result is not None:
                return result
        return None

    return dict.fromkeys(pattern.targets, update_wrapper(rule, replacement))
