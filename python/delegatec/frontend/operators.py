# SPDX-License-Identifier: Apache-2.0
"""Operators that a `.pt2` cannot store."""

from __future__ import annotations

import re

from torch._export.serde.serialize import SerializeError
from torch.export import ExportedProgram

from delegatec.delegation import call_delegate
from delegatec.diagnostics import Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.edge.source import location_of

_FAILED_NODE = re.compile(r"Failed serializing node (\S+) in graph")


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
    reason = first_line(error.__cause__ or error, 120)
    return Diagnostic(
        code="DC119",
        message=f"torch cannot serialize {node.target if node else 'a node'}: {reason}",
        location=location_of(node.meta.get("stack_trace")) if node else None,
        node=node.name if node else "",
        help="rewrite this line with other operators",
    )
