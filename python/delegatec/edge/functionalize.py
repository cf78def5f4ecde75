# SPDX-License-Identifier: Apache-2.0
"""Rewrites in-place operators on fresh tensors as functional ones, in place and without a trace.

torch.export keeps `relu_` and its like. Where the tensor that is written to is the result of an operator
and has no views, the write is a new value that all later readers get. Anything else (views that see the
write, buffers, inputs) needs torch's functionalisation of the whole program, which the caller falls back
to.
"""

from __future__ import annotations

from functools import cache

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from delegatec.edge.arguments import bind, writes
from delegatec.edge.builder import Builder
from delegatec.edge.passes.remove_identities import is_identity
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key


def mutations(program: EdgeProgram) -> list[Node]:
    """The nodes that write to one of their arguments; in-place operators that do nothing are none."""
    return [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and node.target._schema.is_mutable
        and not is_identity(program, node)
    ]


def functionalize(program: EdgeProgram) -> bool:
    """Replaces every mutation, or none.

    Returns:
        False if a mutation has no local functional form; the program is then as it was.
    """
    found = mutations(program)
    if not found:
        return True
    roots = storage_roots(program.graph)
    viewed = {roots[node] for node in program.graph.nodes if node in roots and _may_be_view(node)}
    builder = Builder(program)
    if not all(_is_local(node, roots, viewed) and _keeps_type(builder, node) for node in found):
        return False
    order = {node: position for position, node in enumerate(program.graph.nodes)}
    for node in found:
        assert isinstance(node.target, OpOverload)
        functional = functional_overload(node.target)
        written = node.args[0]
        assert functional is not None and isinstance(written, Node)
        for user in list(written.users):
            if order[user] > order[node]:
                user.replace_input_with(written, node)
        node.target = functional
    return True


@cache
def functional_overload(target: OpOverload) -> OpOverload | None:
    """The overload that returns what `target` writes: relu for relu_."""
    name = target._opname.removesuffix("_")
    packet = (
        getattr(torch.ops.aten, name, None) if target.namespace == "aten" and name != target._opname else None
    )
    if packet is None or target._overloadname not in packet.overloads():
        return None
    functional: OpOverload = getattr(packet, target._overloadname)
    same = [(a.name, str(a.type)) for a in functional._schema.arguments] == [
        (a.name, str(a.type)) for a in target._schema.arguments
    ]
    return functional if same and not functional._schema.is_mutable else None


def _is_local(node: Node, roots: dict[Node, Node], viewed: set[Node]) -> bool:
    """Whether only readers of `node` and of the tensor it writes to can tell that it writes."""
    assert isinstance(node.target, OpOverload)
    written = bind(node).get("self")
    if functional_overload(node.target) is None or not isinstance(written, Node):
        return False
    root = roots[written]
    return root.op == "call_function" and root not in viewed


def _keeps_type(builder: Builder, node: Node) -> bool:
    """Whether the functional form has the dtype and sizes of the tensor that `node` writes to.

    A write converts to the dtype that is there; the functional form of `half.add_(float)` promotes.
    """
    assert isinstance(node.target, OpOverload)
    functional = functional_overload(node.target)
    assert functional is not None
    result, written = builder.infer(functional, node.args, dict(node.kwargs)), node.meta["val"]
    return bool(result.dtype == written.dtype and sizes_key(result) == sizes_key(written))


def storage_roots(graph: Graph) -> dict[Node, Node]:
    """For each node the one that made the memory it is in, as far as an operator may return its argument."""
    roots: dict[Node, Node] = {}
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        passes_on = isinstance(source, Node) and (_may_be_view(node) or writes(node))
        roots[node] = roots[source] if passes_on and isinstance(source, Node) else node
    return roots


def _may_be_view(node: Node) -> bool:
    """Whether the result of `node` may be a view of its first argument."""
    if node.op != "call_function" or writes(node):
        return False
    if not isinstance(node.target, OpOverload):
        return True
    # `reshape`, `contiguous` and their like return a view or a copy, and their schemas say neither
    return node.target._opname in _MAYBE_VIEWS or any(
        r.alias_info is not None for r in node.target._schema.returns
    )


_MAYBE_VIEWS = frozenset({"contiguous", "dropout", "flatten", "reshape", "reshape_as", "to", "type_as"})
