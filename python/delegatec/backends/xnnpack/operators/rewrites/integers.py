# SPDX-License-Identifier: Apache-2.0
"""Constant integers in arithmetic with floats, such as indices weighted by probabilities, as floats."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.backends.xnnpack.operators.rules import TRUTHS
from delegatec.edge.arguments import dtype_of, operand_nodes
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite

aten = torch.ops.aten

_CALLS: Final = (
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor),
    *(aten.maximum.default, aten.minimum.default, aten.where.self),
    *(aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
)


def is_mixed(node: Node) -> bool:
    """Whether a call has float and integer operands; the latter may be constants that `REWRITES` convert."""
    if node.target not in _CALLS:
        return False
    integers = [each for each in operand_nodes(node) if dtype_of(each) not in TRUTHS]
    return bool(integers) and dtype_of(node) in TRUTHS and all(each.op == "placeholder" for each in integers)


def _in_floats(builder: Builder, node: Node) -> Node | None:
    """Converts the integers to the dtype in which the call computes, as the call does."""
    operands = [each for each in operand_nodes(node) if dtype_of(each) != torch.bool]
    kinds = {dtype_of(each) for each in operands} & FLOATS
    if len(kinds) != 1:
        return None
    (kind,), changes = kinds, {}
    for each in operands:
        if dtype_of(each) == kind:
            continue
        constant = builder.facts.constant(each)
        if constant is None or constant.is_floating_point():
            return None
        changes[each] = builder.derived(each, constant.detach().to(kind), kind)
    if not changes:
        return None
    args = tuple(changes.get(each, each) if isinstance(each, Node) else each for each in node.args)
    return builder.call(node.target, *args, val=node.meta["val"], **node.kwargs)


REWRITES: Final = tuple(
    Rewrite(target, _in_floats, note="constant integers in the other operand's dtype") for target in _CALLS
)
