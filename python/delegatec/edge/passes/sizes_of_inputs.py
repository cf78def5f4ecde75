# SPDX-License-Identifier: Apache-2.0
"""Takes sizes from the inputs of a program: nothing waits for an intermediate tensor to know its size."""

from __future__ import annotations

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import SizeNodes, UnknownSizeError

aten = torch.ops.aten

_SIZES = (aten.sym_size.int, aten.sym_numel.default)


def take_sizes_of_inputs(program: EdgeProgram) -> bool:
    """Replaces sizes of intermediate tensors by functions of sizes of inputs, unless they depend on data."""
    sizes = SizeNodes(program)
    changed = False
    for node in list(program.graph.nodes):
        if node.target not in _SIZES:
            continue
        if node.target is aten.sym_size.int and node.args[0].op == "placeholder":
            continue
        value = node.meta["val"]
        if not isinstance(value, torch.SymInt) or free_unbacked_symbols(value):
            continue
        try:
            other = sizes.node_of(value)
        except UnknownSizeError:
            continue
        node.replace_all_uses_with(other)
        program.graph.erase_node(node)
        changed = True
    return changed
