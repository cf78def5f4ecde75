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
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.program import EdgeProgram

# They name what they do to their argument, and do nothing at inference; `remove_identities` knows them.
_HARMLESS = frozenset({torch.ops.aten.detach_.default})


def mutations(program: EdgeProgram) -> list[Node]:
    """The nodes that write to one of their arguments."""
    return [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and node.target._schema.is_mutable
        and node.target not in _HARMLESS
    ]


def functionalize(program: EdgeProgram) -> bool:
    """Replaces every mutation, or none.

    Returns:
        False if a mutation has no local functional form; the program is then as it was.
    """
    order = {node: position for position, node in enumerate(program.graph.nodes)}
    found = mutations(program)
    if not all(_is_local(node, order) for node in found):
        return False
    for node in found:
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


def _is_local(node: Node, order: dict[Node, int]) -> bool:
    assert isinstance(node.target, OpOverload)
    functional = functional_overload(node.target)
    written = bind(node).get("self")
    if functional is None or not isinstance(written, Node) or written.op != "call_function":
        return False
    # a write to a tensor that broadcasting or promotion would change in the functional form is not the same
    same = (
        written.meta["val"].shape == node.meta["val"].shape
        and written.meta["val"].dtype == node.meta["val"].dtype
    )
    return (
        same
        and not _may_alias(written)
        and not any(_may_alias(user) for user in written.users if user is not node)
    )


def _may_alias(node: Node) -> bool:
    """Whether the result of `node` may share memory with one of its arguments."""
    if not isinstance(node.target, OpOverload):
        return node.op == "call_function"
    schema = node.target._schema
    if schema.is_mutable:
        # the result of an in-place operator is the tensor that it wrote to; its chain was judged link by link
        return functional_overload(node.target) is None
    # `reshape`, `contiguous` and `to` return a view or a copy, and their schemas say neither
    maybe = node.target._can_decompose() and node.target._opname in _MAYBE_VIEWS
    return maybe or any(result.alias_info is not None for result in schema.returns)


_MAYBE_VIEWS = frozenset({"reshape", "reshape_as", "contiguous", "to", "type_as", "flatten", "dropout"})
