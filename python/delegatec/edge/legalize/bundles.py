# SPDX-License-Identifier: Apache-2.0
"""Groups the operands of wide nodes, so that replacing them one by one is cheap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from torch.fx import Graph, Node
from torch.fx.node import map_arg

# fx rebuilds all arguments of a node to replace one of them.
_MANY: Final = 64


@contextmanager
def bundled(graph: Graph) -> Iterator[Callable[[Node], None]]:
    """Groups the operands of wide nodes in a scope: intermediate nodes hold up to 64 of them each.

    Args:
        graph: the graph.

    Yields:
        A function that restores the operands of a node, or their replacements.
    """
    arguments: dict[Node, tuple[Any, Any, list[Node]]] = {}

    def release(node: Node) -> None:
        if node not in arguments:
            return
        *before, operands = arguments.pop(node)
        bundles: list[Any] = node.all_input_nodes
        now = dict(zip(operands, [each for bundle in bundles for each in bundle.args[0]], strict=True))
        node.args, node.kwargs = map_arg(before, now.__getitem__)
        for bundle in bundles:
            graph.erase_node(bundle)

    for node in list(graph.nodes):
        operands = node.all_input_nodes
        if len(operands) > _MANY:
            arguments[node] = (node.args, node.kwargs, operands)
            node.args, node.kwargs = tuple(_bundles(node, operands)), {}
    try:
        yield release
    finally:
        for node in list(arguments):
            release(node)


def _bundles(node: Node, operands: list[Node]) -> Iterator[Node]:
    for start in range(0, len(operands), _MANY):
        with node.graph.inserting_before(node):
            yield node.graph.call_function(_bundle, (operands[start : start + _MANY],))


def _bundle(operands: list[Any]) -> list[Any]:
    return operands
