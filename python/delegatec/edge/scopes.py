# SPDX-License-Identifier: Apache-2.0
"""Inlining of `with torch.no_grad()`, `with torch.autocast(..., enabled=False)` and similar scopes.

torch.export turns the contents of such a scope into a graph with a call. If the scope does not affect its
operators, the graph is inlined.
"""

from __future__ import annotations

import operator
from itertools import count
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

# Operator -> position of the graph among its arguments; the graph's own arguments follow it.
_GRAD: Final = torch.ops.higher_order.wrap_with_set_grad_enabled
_AUTOCAST: Final = torch.ops.higher_order.wrap_with_autocast
_GRAPHS: Final[dict[Any, int]] = {_GRAD: 1, _AUTOCAST: 4}


def inline_scopes(owner: GraphModule) -> bool:
    """Inlines scopes in a graph and its subgraphs.

    Returns:
        False if a scope that affects its operators remains, which requires tracing.
    """
    complete = True
    modules = [module for module in owner.modules() if isinstance(module, GraphModule)]
    for module in reversed(modules):
        for call in [node for node in module.graph.nodes if node.target in _GRAPHS]:
            if call.target is _AUTOCAST and call.args[2] is not False:
                complete = False
            else:
                _inline(module, call)
    return complete


def _inline(owner: GraphModule, call: Node) -> None:
    position = _GRAPHS[call.target]
    attribute: Any = call.args[position]
    body: GraphModule = getattr(owner, attribute.target)
    copies: dict[Node, Any] = dict(
        zip(body.graph.find_nodes(op="placeholder"), call.args[position + 1 :], strict=True)
    )
    for node in body.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        with owner.graph.inserting_before(call):
            copies[node] = owner.graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":
            name = next(n for i in count() if not hasattr(owner, n := f"{attribute.target}_{node.name}_{i}"))
            setattr(owner, name, getattr(body, node.target))
            copies[node].target = name
    results: Any = body.graph.output_node().args[0]
    if isinstance(results, Node):
        call.replace_all_uses_with(copies[results])
    for user in list(call.users):
        assert user.target is operator.getitem
        index: Any = user.args[1]
        result = results[index]
        user.replace_all_uses_with(copies[result] if isinstance(result, Node) else result)
        owner.graph.erase_node(user)
    owner.graph.erase_node(call)
    if not attribute.users:
        owner.graph.erase_node(attribute)
