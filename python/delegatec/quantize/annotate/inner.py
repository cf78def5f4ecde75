# SPDX-License-Identifier: Apache-2.0
"""Values that may be quantized finer: those inside softmax, attention and norms, and sums before norms."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Graph, Node

from delegatec.quantize.decompose.decompositions import composite_of
from delegatec.quantize.operators import Kind, kind_of

aten = torch.ops.aten

_SUMS: Final = frozenset({aten.add.Tensor, aten.sub.Tensor})


def inner_values(graph: Graph) -> frozenset[Node]:
    """Returns the results that are used only inside the composite that computes them, and sums that one uses.

    Operands of products are not among them: both have the dtype of activations.
    """
    found: set[Node] = set()
    # Results that products use, directly or after moves.
    multiplied: set[Node] = set()
    for node in reversed(graph.nodes):
        kinds = {kind_of(user) for user in node.users}
        moved = any(user in multiplied and kind_of(user) is Kind.SHARED for user in node.users)
        if kinds & {Kind.PRODUCT, Kind.LAYER} or moved:
            multiplied.add(node)
            if composite_of(node) is not None:
                continue
        composites = {composite_of(user) for user in node.users}
        if composite_of(node) is not None:
            if composites == {composite_of(node)}:
                found.add(node)
        elif node.target in _SUMS and composites - {None}:
            found.add(node)
    for node in graph.nodes:
        if node in found and kind_of(node) is Kind.SHARED and node.all_input_nodes[0] not in found:
            found.remove(node)
    return frozenset(found)
