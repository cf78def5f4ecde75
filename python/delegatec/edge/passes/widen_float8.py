# SPDX-License-Identifier: Apache-2.0
"""Stores float8 constants, which kernels lack, as float16, which represents all their values."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.passes.movement.arrangement import is_movement
from delegatec.edge.program import EdgeProgram

_FLOAT8: Final = frozenset(
    {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}
)
_CAST: Final = torch.ops.aten._to_copy.default


def widen_float8(program: EdgeProgram) -> bool:
    """Stores float8 constants as float16, if the program only moves and converts them."""
    changed = False
    constants = program.fixed_constants()
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name not in constants or constants[node.name].dtype not in _FLOAT8:
            continue
        moved = _moved(node)
        if moved is None:
            continue
        program.constants[node.name] = constants[node.name].to(torch.float16)
        for each in moved:
            each.meta["val"] = each.meta["val"].to(torch.float16)
        changed = True
    return changed


def _moved(constant: Node) -> list[Node] | None:
    """Returns a constant and its movements, whose other users are conversions; None if there are others."""
    moved = [constant]
    for node in moved:
        for user in node.users:
            if is_movement(user):
                moved.append(user)
            elif user.target is not _CAST:
                return None
    return moved
