# SPDX-License-Identifier: Apache-2.0
"""Linear layers of rows that a view joins before them, and divides behind them."""

from __future__ import annotations

import torch
from torch.fx import Node

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
    builder = Builder(program)
    changed = False
    for node in list(program.graph.nodes):
        rows = _rows(node) if node.target is aten.linear.default else None
        if rows is None:
            continue
        source = node.args[0]
        users = list(node.users)
        x = builder.at(node).call(aten.view.default, source, [*rows, source.meta["val"].shape[-1]])
        layer = builder.call(aten.linear.default, x, *node.args[1:], **node.kwargs)
        for user in users:
            user.replace_all_uses_with(layer)
        changed = True
    if changed:
        eliminate_dead_code(program)
        merge_movements(program)
        eliminate_common(program)
        eliminate_dead_code(program)
    return changed


def _rows(layer: Node) -> list[int | torch.SymInt] | None:
    """Returns the sizes of rows to which all users of a layer divide them; None unless several vary."""
    shapes = {sizes_key(user.meta["val"]) for user in layer.users if user.target is aten.view.default}
    source = layer.args[0]
    if len(shapes) != 1 or not isinstance(source, Node) or source.target is not aten.view.default:
        return None
    if any(user.target is not aten.view.default for user in layer.users):
        return None
    shape = next(iter(layer.users)).meta["val"].shape
    is_divided = len(layer.meta["val"].shape) == 2 and shape[-1] == layer.meta["val"].shape[-1]
    several = sum(not isinstance(size, int) for size in shape) > 1
    return list(shape[:-1]) if is_divided and several else None
