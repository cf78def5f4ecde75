# SPDX-License-Identifier: Apache-2.0
"""Broadcasts that the runtime must not compute in the memory of an operand.

The runtime plans the memory of a graph when it first runs. If the operand of a binary operation has as many
bytes as the result then, and no other reader, the result gets the operand's memory. Up to XNNPACK of May 2026
(commit b12ed13b), and so in ExecuTorch 1.4, this is not revised when sizes change: if the operand is
broadcast along dimensions that had size 1 in the first run, later results exceed its memory.
"""

from __future__ import annotations

import torch

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.edge.arguments import broadcast
from delegatec.edge.symbols import sizes_key, smallest


def dims_to_enlarge(b: GraphBuilder, first: int, second: int) -> list[int | None]:
    """Returns for each operand the dimension along which the other one is enlarged; None if it is not.

    An input that is enlarged is a copy, whose memory may be reused.
    """
    dims = [_dim_to_enlarge(b, first, second), _dim_to_enlarge(b, second, first)]
    if dims[0] is not None:
        dims[1] = _dim_to_enlarge(b, second, first, is_copied=True)
    if dims[1] is not None:
        dims[0] = _dim_to_enlarge(b, first, second, is_copied=True)
    return dims


def _dim_to_enlarge(b: GraphBuilder, operand: int, other: int, is_copied: bool = False) -> int | None:
    """Returns a dimension along which one element more keeps an operand out of the result's memory.

    Args:
        b: the graph.
        operand: a value that is broadcast with `other`.
        other: the other operand; it has the dimension of the result.
        is_copied: whether the operand is a copy of an input.

    Returns:
        The dimension, counted from the end; None if the operand always is as large as the result, always is
        smaller, or is a constant or an input of the graph, whose memory is not reused.
    """
    if b.draft.is_constant(operand) or (operand in b.draft.inputs and not is_copied):
        return None
    shape = broadcast(b.shape_of(operand), b.shape_of(other))
    own = (1,) * (len(shape) - len(b.shape_of(operand))) + sizes_key(b.shape_of(operand))
    dims = [dim for dim, key in enumerate(sizes_key(shape)) if own[dim] != key]
    if not dims or any(not isinstance(shape[dim], torch.SymInt) or smallest(shape[dim]) > 1 for dim in dims):
        return None
    return dims[0] - len(shape)
