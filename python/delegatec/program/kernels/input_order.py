# SPDX-License-Identifier: Apache-2.0
"""Inputs whose dim order is not row-major are copied to row-major order at the start."""

from __future__ import annotations

from typing import Final

import torch

from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

# Everything in an edge program is contiguous: the only such calls are those added here.
REORDERS: Final = torch.ops.aten.contiguous.default

# The kernel for it: (self, non_blocking, dim_order, *, out). `aten::clone.out`, `aten::copy_` and
# `aten::_to_copy.out` reject tensors of different orders (ExecuTorch 1.4.1, measured).
REORDER: Final = ("dim_order_ops::_to_dim_order_copy", "out")


def reorder_inputs(program: EdgeProgram) -> None:
    """Replaces inputs that are in another order by row-major copies.

    It runs after delegation and after all rewrites: backends and kernels support one order only.

    Args:
        program: the method, edited in place; a second run changes nothing.
    """
    builder = Builder(program)
    anchor = next(node for node in program.graph.nodes if node.op != "placeholder")
    for node in list(program.user_inputs()):
        readers = [user for user in node.users if user.target is not REORDERS]
        if node.name in program.dim_orders and readers:
            copy = builder.at(anchor).call(REORDERS, node, val=node.meta["val"])
            # the copy belongs to the input, not to the first operator
            copy.meta = {"val": copy.meta["val"], "source": readers[0].meta.get("source")}
            node.replace_all_uses_with(copy, delete_user_cb=lambda user: user.target is not REORDERS)
