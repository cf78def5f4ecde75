# SPDX-License-Identifier: Apache-2.0
"""Computes the sizes of views that depend on data from the tensor that is viewed."""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import integer_ratio, is_scalar, size_nodes, sizes_key

aten = torch.ops.aten

_SIZED: Final[dict[Any, str]] = {aten.view.default: "size", aten.expand.default: "size"}


def take_sizes_of_operands(program: EdgeProgram) -> bool:
    """Replaces sizes in the arguments of views that a program reads from data by sizes of their operands.

    A delegate computes sizes of its values, and has no scalar inputs.
    """
    return rewrite(program, dict.fromkeys(_SIZED, _sizes_of_operand))


def depends_on_data(scalar: Node) -> bool:
    """Whether a scalar is not computed from sizes of tensors alone."""
    known = {scalar, *size_nodes([scalar])}
    return not all(
        each.target in (aten.sym_size.int, aten.sym_numel.default) or known.issuperset(each.all_input_nodes)
        for each in known
    )


def _sizes_of_operand(b: Builder, node: Node) -> Node | None:
    bound = bind(node)
    sizes = list(bound[_SIZED[node.target]])
    new = [_size(b, bound["self"], each) if isinstance(each, Node) else each for each in sizes]
    if all(one is other for one, other in zip(new, sizes, strict=True)):
        return None
    node.args = (bound["self"], new)
    node.kwargs = {}
    return node


def _size(b: Builder, operand: Node, size: Node) -> Any:
    """Returns a function of a size of a tensor that equals a scalar; the scalar itself if there is none."""
    if not is_scalar(size) or not depends_on_data(size):
        return size
    value = size.meta["val"]
    for dim, known in enumerate(shape_of(operand)):
        if isinstance(known, int):
            continue
        if sizes_key([known]) == sizes_key([value]):
            return b.call(aten.sym_size.int, operand, dim, val=known)
        for function, ratio in (
            (operator.floordiv, integer_ratio(known, value)),
            (operator.mul, integer_ratio(value, known)),
        ):
            if ratio is not None and ratio > 0:
                size_of_dim = b.call(aten.sym_size.int, operand, dim, val=known)
                return b.call(function, size_of_dim, ratio, val=value)
    return size
