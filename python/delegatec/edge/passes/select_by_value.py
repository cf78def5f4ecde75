# SPDX-License-Identifier: Apache-2.0
"""Replaces selects at data-dependent positions by gathers."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Argument, Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten


def select_by_value(program: EdgeProgram) -> bool:
    """Replaces `x.select(dim, position.item())`, which `x[position]` becomes, by `index`.

    Delegates gather by tensors; data-dependent scalars are dynamic sizes for them.
    """
    return rewrite(program, _RULES)


def _gather(b: Builder, node: Node, x: Node, dim: int, position: Node) -> Node:
    dim = positive(dim, len(shape_of(x)))
    if not same_sizes(shape_of(position), (1,)):
        position = b.call(aten.view.default, position, [1])
    picked = b.call(aten.index.Tensor, x, [*[None] * dim, position])
    return b.call(aten.squeeze.dims, picked, [dim], val=node.meta["val"])


_POSITION: Final = Var("position").where(lambda node: dtype_of(node) in (torch.int32, torch.int64))
_RULES: Final = fusion(
    Call(aten.select.int, Var("x"), Argument("dim"), Call(aten._local_scalar_dense.default, _POSITION)),
    _gather,
)
