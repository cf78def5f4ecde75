# SPDX-License-Identifier: Apache-2.0
"""Replaces many nodes at once."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import Node
from torch.fx.node import map_arg


def redirect(replacements: Mapping[Node, Node]) -> bool:
    """Replaces all uses of the keys by their values, and erases the keys.

    Each user is edited once: fx rebuilds all arguments of a node to replace one of them, and nodes may have
    thousands.

    Args:
        replacements: node -> an earlier one, in the order of the graph; a value may be a key, too.

    Returns:
        Whether there are any.
    """
    final: dict[Node, Node] = {}
    for node, other in replacements.items():
        final[node] = final.get(other, other)
    for user in {user: None for node in final for user in node.users if user not in final}:
        user.args, user.kwargs = map_arg((user.args, user.kwargs), lambda node: final.get(node, node))
    for node in reversed(final):
        node.graph.erase_node(node)
    return bool(final)
