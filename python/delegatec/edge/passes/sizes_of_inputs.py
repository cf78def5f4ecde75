# SPDX-License-Identifier: Apache-2.0
"""Computes sizes from the inputs of a program, so that none depends on an intermediate tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import UnknownSizeError

aten = torch.ops.aten

_SIZES = (aten.sym_size.int, aten.sym_numel.default)


def take_sizes_of_inputs(program: EdgeProgram) -> bool:
    """Replaces sizes of intermediate tensors by functions of sizes of inputs, unless they depend on data."""
    return rewrite(program, dict.fromkeys(_SIZES, _size_of_input))


def _size_of_input(b: Builder, node: Node) -> Any:
    source, value = node.args[0], node.meta["val"]
    if node.target is aten.sym_size.int and isinstance(source, Node) and source.op == "placeholder":
        return None
    if not isinstance(value, torch.SymInt) or free_unbacked_symbols(value):
        return None
    try:
        return b.scalar(value)
    except UnknownSizeError:
        return None
