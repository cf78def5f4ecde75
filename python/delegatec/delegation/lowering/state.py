# SPDX-License-Identifier: Apache-2.0
"""Buffers that a delegate keeps between runs."""

from __future__ import annotations

from collections.abc import Sequence

from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.delegation import plugins
from delegatec.delegation.protocol.backend import Backend
from delegatec.edge.program import EdgeProgram


def kept_state(program: EdgeProgram, group: Sequence[Node], backend: Backend) -> dict[Node, Node]:
    """Returns the buffers that the delegate of a group keeps, with their new values.

    Only nodes of the group use such a buffer and compute its new value, and nothing else uses its state.

    Args:
        program: the program.
        group: nodes of a partition.
        backend: their backend.
    """
    if not program.owns_state:
        return {}
    members = set(group)
    specs = program.specs_by_name()
    placeholders = {node.name: node for node in program.placeholders()}
    found: dict[Node, Node] = {}
    for name, value in program.mutated_inputs().items():
        buffer = placeholders[name]
        if specs[name].kind is not InputKind.BUFFER or name not in program.constants:
            continue
        is_inside = value in members and buffer.users and all(user in members for user in buffer.users)
        if is_inside and plugins.call(Backend.keeps, backend, program.constants[name]):
            found[buffer] = value
    # A delegate without outputs would have no users.
    used = set(program.results(without=[buffer.name for buffer in found]))
    has_outputs = any(
        user not in members and (user.op != "output" or node in used) for node in group for user in node.users
    )
    return found if has_outputs else {}
