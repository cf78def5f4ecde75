# SPDX-License-Identifier: Apache-2.0
"""Checks for exported programs that an edge program cannot represent."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import torch
from torch.fx import Graph, Node

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.functionalize import mutations, storage_roots
from delegatec.edge.program import EdgeProgram
from delegatec.edge.source import location_of
from delegatec.edge.verifier import is_callable

# torch.fx names the node that failed in the text of the exception.
_FAILED_NODE: Final = re.compile(r"While executing %(\w+)")


def reject_writes(program: EdgeProgram) -> None:
    """Raises DC208 for operators in a body of control flow that write to an operand of the body."""
    problems = []
    for body in program.walk():
        roots = storage_roots(body.graph)
        for node in mutations(body) if body is not program else ():
            written = node.args[0]
            if isinstance(written, Node) and roots[written].op == "placeholder":
                problems.append(
                    Diagnostic(
                        "DC208",
                        f"{node.target} in {body.method} writes to outer tensor {roots[written].name}",
                        location=location_of(node.meta.get("stack_trace")),
                        node=node.name,
                        expected="bodies of control flow that write only to their own tensors",
                        help="return the new value from the body and write it after the call",
                    )
                )
    if problems:
        raise DelegatecError(problems)


def failed_node(error: Exception, graph: Graph) -> Node | None:
    """Returns the node that torch was tracing when it failed; None if the error does not name one."""
    match = _FAILED_NODE.search(str(error))
    return next((node for node in graph.nodes if match and node.name == match[1]), None)


def not_functional(error: Exception, program: EdgeProgram) -> Diagnostic:
    """Returns why torch cannot replace the writes of a program by functional operators."""
    node = failed_node(error, program.graph)
    return Diagnostic(
        "DC205",
        f"torch cannot make a write functional: {str(error).strip().partition(chr(10))[0]}",
        location=location_of(node.meta.get("stack_trace")) if node else None,
        node=node.name if node else "",
        expected="writes to tensors of fixed sizes, such as copy_ to a slice",
        help="create the result with torch.cat, torch.stack or torch.where instead of writing parts of it",
    )


def dynamic_dimensions(program: EdgeProgram) -> set[tuple[int, int]]:
    """Returns the dynamic dimensions of inputs, by position of the input."""
    return {
        (position, dim)
        for position, node in enumerate(program.user_inputs())
        if isinstance(node.meta["val"], torch.Tensor)
        for dim, size in enumerate(node.meta["val"].shape)
        if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None
    }


def reject_specialized(program: EdgeProgram, dynamic: Collection[tuple[int, int]]) -> None:
    """Raises DC205 for dimensions that were dynamic before: torch has evaluated a condition on them."""
    lost = sorted(set(dynamic) - dynamic_dimensions(program))
    inputs = list(program.user_inputs())
    if lost:
        raise DelegatecError(
            Diagnostic(
                "DC205",
                f"torch specializes dimension {dim} of {inputs[position].name} to its example's size,"
                f" {inputs[position].meta['val'].shape[dim]}",
                node=inputs[position].name,
                expected="operators whose decompositions hold for all sizes",
                help="make the dimension static, write out of place, or try another example size",
            )
            for position, dim in lost
        )


def functions(program: EdgeProgram) -> list[Node]:
    """Returns calls of functions that are not operators, such as those of torch.vmap, including bodies."""
    nodes = (node for each in program.walk() for node in each.graph.nodes)
    return [node for node in nodes if node.op == "call_function" and not is_callable(node.target)]


def reject_functions(program: EdgeProgram) -> None:
    """Raises DC205 if a program calls functions that are not operators."""
    found = functions(program)
    if found:
        names = dict.fromkeys(getattr(node.target, "__name__", str(node.target)) for node in found)
        raise DelegatecError(
            [
                Diagnostic(
                    "DC205",
                    f"the program calls torch functions that are not operators: {', '.join(names)}",
                    location=location_of(found[0].meta.get("stack_trace")),
                    node=found[0].name,
                    expected="operators of torch.ops",
                    help="replace torch.vmap by batched operators",
                )
            ]
        )
