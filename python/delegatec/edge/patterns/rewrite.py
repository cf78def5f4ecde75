# SPDX-License-Identifier: Apache-2.0
"""The driver of passes that rewrite single calls: by rules, and by patterns with a replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

from torch.fx import Node

from delegatec.edge.arguments import writes
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import is_erased, replace
from delegatec.edge.legalize.rule import Rule, RuleTable
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import Pattern
from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import rule_name


def rewrite(program: EdgeProgram, rules: RuleTable, users_first: bool = False) -> bool:
    """Applies rules to the calls of a program, without its bodies, and erases dead code.

    Args:
        program: edited in place.
        rules: target -> the rule of its calls. It returns the call itself if it has edited it.
        users_first: whether calls are visited from last to first, so that the longest match of a pattern comes
            before those inside of it.

    Returns:
        Whether a rule applied.
    """
    found = [node for node in program.graph.nodes if node.target in rules]
    if not found:
        return False
    builder, changed = Builder(program), False
    for node in reversed(found) if users_first else found:
        if is_erased(node) or (users_first and not node.users):
            continue
        rule = rules[node.target]
        builder.rule = rule_name(rule)
        result = rule(builder.at(node), node)
        if result is None:
            continue
        changed = True
        if result is not node:
            operands = node.all_input_nodes
            replace(node, result)
            _erase_unused(operands)
    if changed:
        eliminate_dead_code(program)
    return changed


def fusion(pattern: Pattern, replacement: Callable[..., Any]) -> dict[Any, Rule]:
    """Returns the rule that replaces what matches a pattern, for each target of its calls.

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


def _erase_unused(nodes: Iterable[Node]) -> None:
    """Erases the calls among nodes that have no users, and those that only they use."""
    for node in nodes:
        if node.op == "call_function" and not node.users and not is_erased(node) and not writes(node):
            operands = node.all_input_nodes
            node.graph.erase_node(node)
            _erase_unused(operands)
