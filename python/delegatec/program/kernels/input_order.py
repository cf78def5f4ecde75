# SPDX-License-Identifier: Apache-2.0
"""Inputs that a caller passes in another order than row by row are copied into that order at the start."""

from __future__ import annotations

from typing import Final

import torch

from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

# In an edge program everything is contiguous: there is no such call but those that are made here.
REORDERS: Final = torch.ops.aten.contiguous.default

# The kernel for it: (self, non_blocking, dim_order, *, out). `aten::clone.out`, `aten::copy_` and
# `aten::_to_copy.out` refuse tensors of different orders (ExecuTorch 1.4.1, measured).
REORDER: Final = ("dim_order_ops::_to_dim_order_copy", "out")


def reorder_inputs(program: EdgeProgram) -> None:
    """Lets a program read row-major copies of inputs that are in another order.

    It runs after delegation and after all rewrites: backends and kernels know one order only.

    Args:
        program: the method, which is edited; nothing changes at a second time.
    """
    builder = Builder(program)
    anchor = next(node for node in program.graph.nodes if node.op != "placeholder")
    for node in list(program.user_inputs()):
        readers = [user for user in node.users if user.target is not REORDERS]
        if node.name in program.dim_orders and readers:
            copy = builder.at(anchor).call(REORDERS, node, val=node.meta["val"])
            # it is the input's, not of the operator that happens to be the first
            copy.meta = {"val": copy.meta["val"], "source": readers[0].meta.get("source")}
            node.replace_all_uses_with(copy, delete_user_cb=lambda user: user.target is not REORDERS)
