# SPDX-License-Identifier: Apache-2.0
"""Operators that a `.pt2` cannot store, or that are not registered when it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

# A .pt2 of a quantized model calls the operators that this registers.
import torch.ao.quantization.fx._decomposed
from torch._export.serde import schema
from torch._export.serde.serialize import SerializeError
from torch.export import ExportedProgram

from delegatec.delegation import call_delegate
from delegatec.diagnostics import Diagnostic
from delegatec.edge.source import location_of

_FAILED_NODE = re.compile(r"Failed serializing node (\S+) in graph")
_PREFIX = "torch.ops."


def not_storable(program: ExportedProgram, error: SerializeError) -> Diagnostic:
    """Returns why torch cannot serialize a program.

    Args:
        program: the program.
        error: torch's exception, whose message names the node.
    """
    match = _FAILED_NODE.search(str(error))
    nodes = {node.name: node for node in program.graph.nodes}
    node = nodes.get(match[1]) if match else None
    if node is not None and node.target is call_delegate:
        return Diagnostic(
            code="DC119",
            message="the model contains a lowered program, which a .pt2 cannot store",
            location=location_of(node.meta.get("stack_trace")),
            node=node.name,
            help="export the original model, or lower this one in Python with delegatec.lower",
        )
    reason = str(error.__cause__ or error).strip().partition("\n")[0]
    return Diagnostic(
        code="DC119",
        message=f"torch cannot serialize {node.target if node else 'a node'}: {reason}",
        location=location_of(node.meta.get("stack_trace")) if node else None,
        node=node.name if node else "",
        help="rewrite this line with other operators",
    )


def unregistered_operators(graph: schema.Graph) -> list[Diagnostic]:
    """Returns a diagnostic for each operator of a stored graph that is not registered."""
    found: dict[str, Diagnostic] = {}
    for node in _nodes(graph):
        if node.target in found or _is_registered(node.target):
            continue
        found[node.target] = Diagnostic(
            code="DC121",
            message=f"operator {node.target.removeprefix(_PREFIX)} is not registered",
            location=location_of(node.metadata.get("stack_trace")),
            expected="torch operators, or custom operators registered in the lowering process",
            help="rewrite it with torch operators, or lower with a backend whose module registers it",
        )
    return list(found.values())


def _nodes(graph: schema.Graph) -> Iterator[schema.Node]:
    for node in graph.nodes:
        yield node
        for argument in node.inputs:
            if argument.arg.type == "as_graph":
                yield from _nodes(argument.arg.as_graph.graph)


def _is_registered(target: str) -> bool:
    if not target.startswith(_PREFIX):
        return True
    owner: object = torch.ops
    for name in target.removeprefix(_PREFIX).split("."):
        owner = getattr(owner, name, None)
        if owner is None:
            return False
    return True
