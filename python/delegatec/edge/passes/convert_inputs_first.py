# SPDX-License-Identifier: Apache-2.0
"""Moves conversions of inputs before permutations and views of them."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
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
    inputs = set(program.user_inputs())

    def convert_first(b: Builder, node: Node) -> Node | None:
        moves, dtype = _moves_before(node), dtype_of(node)
        source = bind(moves[-1])["self"] if moves else node
        if source not in inputs or dtype_of(source) not in _BYTES or not dtype.is_floating_point:
            return None
        value = b.call(aten._to_copy.default, source, dtype=dtype)
        for move in reversed(moves):
            value = b.call(move.target, value, *move.args[1:], val=move.meta["val"].to(dtype))
        return value

    return rewrite(program, {aten._to_copy.default: convert_first})


def _moves_before(node: Node) -> list[Node]:
    """Returns the moves that only a conversion reads, the last one first."""
    found = []
    source = bind(node)["self"]
    while source.target in _MOVES and len(source.users) == 1:
        found.append(source)
        source = source.args[0]
    return found
