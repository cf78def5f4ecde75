# SPDX-License-Identifier: Apache-2.0
"""Folding of zero padding into convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import each
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Positions of arguments of aten.convolution.
_INPUT, _PADDING, _TRANSPOSED = 0, 4, 6


def fold_padding(program: EdgeProgram) -> bool:
    """Moves zero padding that is symmetric in each spatial dimension into the convolution."""
    changed = False
    for node in program.graph.nodes:
        if node.target is not aten.convolution.default or node.args[_TRANSPOSED]:
            continue
        pad: Any = node.args[_INPUT]
        amounts = _symmetric_zeros(pad, len(node.meta["val"].shape) - 2)
        if amounts is None:
            continue
        padding = [
            own + more for own, more in zip(each(node.args[_PADDING], len(amounts)), amounts, strict=True)
        ]
        arguments = list(node.args)
        arguments[_INPUT], arguments[_PADDING] = pad.args[0], padding
        node.args = tuple(arguments)
        changed = True
    return changed


def _symmetric_zeros(pad: Any, spatial: int) -> list[int] | None:
    """Returns the zeros on each side of each spatial dimension; None for other kinds of padding."""
    if not isinstance(pad, Node) or pad.target is not aten.constant_pad_nd.default:
        return None
    amounts: Any = pad.args[1]
    value = pad.args[2] if len(pad.args) > 2 else 0
    if value != 0 or any(not isinstance(amount, int) or amount < 0 for amount in amounts):
        return None
    # pairs (before, after) from the last dimension to the first
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (spatial + 2 - len(pairs)) + pairs
    if any(before != after for before, after in pairs) or any(pair != (0, 0) for pair in pairs[:-spatial]):
        return None
    return [before for before, _ in pairs[-spatial:]]
