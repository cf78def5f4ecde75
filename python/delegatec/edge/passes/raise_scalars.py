# SPDX-License-Identifier: Apache-2.0
"""Gives a dimension to operands of gathers and scatters that have none, if another operand has one.

Torch takes a tensor without dimensions for one of one element: `x.gather(0, torch.tensor(2))` of a vector is
a scalar. Kernels and backends take operands of one rank.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_OPERATORS: Final = (
    *(aten.gather.default, aten.scatter.src, aten.scatter.value, aten.scatter.reduce),
    *(aten.scatter.value_reduce, aten.scatter_add.default, aten.scatter_reduce.two),
)
_OPERANDS: Final = ("self", "index", "src")


def raise_scalars(program: EdgeProgram) -> bool:
    """Views operands without dimensions as vectors of one element, and the result as what it was."""
    return rewrite(program, dict.fromkeys(_OPERATORS, _raise))


def _raise(b: Builder, node: Node) -> Node | None:
    bound = bind(node)
    operands = {name: bound[name] for name in _OPERANDS if isinstance(bound.get(name), Node)}
    scalars = {name: each for name, each in operands.items() if not shape_of(each)}
    if not scalars or len(scalars) == len(operands):
        return None
    for name, each in scalars.items():
        bound[name] = b.call(aten.view.default, each, [1])
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    args = [bound[each.name] for each in schema if not each.kwarg_only]
    kwargs = {each.name: bound[each.name] for each in schema if each.kwarg_only and each.name in node.kwargs}
    shape = list(shape_of(node)) or [1]
    result = b.call(node.target, *args, val=b.empty(shape, dtype_of(node)), **kwargs)
    return result if shape_of(node) else b.call(aten.view.default, result, [], val=node.meta["val"])
