# SPDX-License-Identifier: Apache-2.0
"""The driver of passes that rewrite calls one by one: it visits, replaces, names the rule and cleans up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch.fx import Node

from delegatec.edge.arguments import writes
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import is_erased, replace
from delegatec.edge.legalize.rule import Rule
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import rule_name


def rewrite(program: EdgeProgram, rules: Mapping[Any, Rule], users_first: bool = False) -> bool:
    """Applies rules to the calls of a program, without its bodies, and erases dead code.

    Args:
        program: edited in place.
        rules: target -> the rule of its calls. It returns the call itself if it has edited it.
        users_first: whether to visit calls from last to first, so that the longest match of a pattern comes
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


def _erase_unused(nodes: Iterable[Node]) -> None:
    """Erases the calls among nodes that have no users, and those that only they use."""
    for node in nodes:
        if node.op == "call_function" and not node.users and not is_erased(node) and not writes(node):
            operands = node.all_input_nodes
            node.graph.erase_node(node)
            _erase_unused(operands)
