# SPDX-License-Identifier: Apache-2.0
"""Conversions of inputs come before permutations and views of them."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_MOVES: Final = frozenset({aten.permute.default, aten.view.default})
_BYTES: Final = frozenset({torch.int8, torch.uint8})


def convert_inputs_first(program: EdgeProgram) -> bool:
    """Converts inputs of int8 and uint8 to floating point before they are moved, if nothing else reads them.

    A backend that computes in floating point then has the moves inside, such as that of a camera's image
    [N, H, W, C] to [N, C, H, W], which the layout of a convolution makes unnecessary.

    Args:
        program: edited in place.

    Returns:
        Whether it had such conversions.
    """
    builder = Builder(program)
    inputs = set(program.user_inputs())
    changed = False
    for node in program.graph.find_nodes(op="call_function", target=aten._to_copy.default):
        moves = _moves_before(node)
        source = bind(moves[-1])["self"] if moves else node
        if source not in inputs or dtype_of(source) not in _BYTES or not dtype_of(node).is_floating_point:
            continue
        dtype = dtype_of(node)
        value = builder.at(node).call(aten._to_copy.default, source, dtype=dtype)
        for move in reversed(moves):
            value = builder.call(move.target, value, *move.args[1:], val=move.meta["val"].to(dtype))
        node.replace_all_uses_with(value)
        changed = True
    if changed:
        eliminate_dead_code(program)
    return changed


def _moves_before(node: Node) -> list[Node]:
    """Returns the moves that only a conversion reads, the last one first."""
    found = []
    source = bind(node)["self"]
    while source.target in _MOVES and len(source.users) == 1:
        found.append(source)
        source = source.args[0]
    return found
