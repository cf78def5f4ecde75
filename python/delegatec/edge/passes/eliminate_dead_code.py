# SPDX-License-Identifier: Apache-2.0
"""Removes dead code, and assertions from torch.export."""

from __future__ import annotations

from typing import Final

import torch

from delegatec.edge.arguments import writes
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# They check shapes, dtypes and ranges that the exported program already guarantees.
_ASSERTIONS: Final = frozenset(
    {
        aten._assert_async.msg,
        aten._assert_scalar.default,
        aten._assert_tensor_metadata.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
    }
)


def eliminate_dead_code(program: EdgeProgram) -> bool:
    """Erases calls without users, unless they write to an argument, then constants without users."""
    before = len(program.graph.nodes)
    for node in reversed(program.graph.nodes):
        if node.op in ("call_function", "get_attr") and not node.users and not writes(node):
            program.graph.erase_node(node)
    program.erase_unused_bodies()
    program.erase_unused_placeholders()
    return len(program.graph.nodes) != before


def remove_assertions(program: EdgeProgram) -> bool:
    """Erases run-time assertions on metadata."""
    found = [node for node in program.graph.nodes if node.target in _ASSERTIONS]
    for node in reversed(found):
        program.graph.erase_node(node)
    return bool(found)
