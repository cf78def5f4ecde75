# SPDX-License-Identifier: Apache-2.0
"""Linear layers of rows that a view joins before them, and divides behind them."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten


def separate_rows(program: EdgeProgram) -> bool:
    """Lets linear layers keep the dimensions of rows, if several of them vary and a view restores them later.

    A layer of [batch * length, channels] whose result becomes [batch, length, channels] reads that shape: a
    backend that infers one size of a view cannot divide the rows.

    Args:
        program: edited in place.

    Returns:
        Whether it had such layers.
    """
    builder, fixed = Builder(program), program.fixed_constants()
    changed = False
    for node in list(program.graph.nodes):
        found = _layer(node, fixed)
        rows = None if found is None else _rows(node, found.x)
        if found is None or rows is None:
            continue
        users = list(node.users)
        x = builder.at(node).call(aten.view.default, found.x, [*rows, shape_of(found.x)[-1]])
        weight = builder.call(aten.permute.default, found.weight, [1, 0]) if found.is_turned else found.weight
        layer = builder.call(aten.linear.default, x, weight, found.bias)
        for user in users:
            user.replace_all_uses_with(layer)
        changed = True
    if changed:
        eliminate_dead_code(program)
        merge_movements(program)
        eliminate_common(program)
        eliminate_dead_code(program)
    return changed


class _Layer(NamedTuple):
    """A linear layer; the weight is [in, out] if it is turned."""

    x: Node
    weight: Node
    bias: Node | None
    is_turned: bool


def _layer(node: Node, fixed: Container[str]) -> _Layer | None:
    """Returns the layer that a call computes, also one with a constant weight [in, out], as of GPT-2."""
    if node.target is aten.linear.default:
        bound = bind(node)
        return _Layer(bound["input"], bound["weight"], bound["bias"], False)
    if node.target not in (aten.addmm.default, aten.mm.default) or not dtype_of(node).is_floating_point:
        return None
    bound = bind(node)
    if node.target is aten.mm.default:
        is_layer = bound["mat2"].name in fixed
        return _Layer(bound["self"], bound["mat2"], None, True) if is_layer else None
    bias, weight = bound["self"], bound["mat2"]
    is_layer = weight.name in fixed and len(shape_of(bias)) == 1
    is_plain = bound["beta"] == bound["alpha"] == 1
    return _Layer(bound["mat1"], weight, bias, True) if is_layer and is_plain else None


def _rows(layer: Node, source: Node) -> list[int | torch.SymInt] | None:
    """Returns the sizes of rows to which all users of a layer divide them; None unless several vary."""
    shapes = {sizes_key(user.meta["val"]) for user in layer.users if user.target is aten.view.default}
    if len(shapes) != 1 or source.target is not aten.view.default:
        return None
    if any(user.target is not aten.view.default for user in layer.users):
        return None
    shape = next(iter(layer.users)).meta["val"].shape
    is_divided = len(layer.meta["val"].shape) == 2 and shape[-1:] == layer.meta["val"].shape[-1:]
    several = sum(not isinstance(size, int) for size in shape) > 1
    return list(shape[:-1]) if is_divided and several else None
