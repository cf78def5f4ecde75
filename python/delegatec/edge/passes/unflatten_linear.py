# SPDX-License-Identifier: Apache-2.0
"""Replaces reshape -> linear -> reshape by one linear layer on the unflattened rows."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, Argument, Call, Const, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE_CONSTANTS
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten


def unflatten_linear(program: EdgeProgram) -> bool:
    """Keeps the row dimensions of linear layers, if several of them vary and a view restores them later.

    A layer of [batch * length, channels] whose result becomes [batch, length, channels] reads that shape: a
    backend that infers one size of a view cannot split the rows.

    Args:
        program: edited in place.

    Returns:
        Whether it had such layers.
    """
    changed = rewrite(program, _RULES)
    if changed:
        merge_movements(program)
        eliminate_common(program)
        eliminate_dead_code(program)
    return changed


def _unflatten(
    b: Builder, node: Node, x: Node, bias: Node | None = None, weight: Node | None = None, **turned: Node
) -> Node | None:
    rows = _rows(node)
    if rows is None:
        return None
    users = list(node.users)
    x = b.call(aten.view.default, x, [*rows, shape_of(x)[-1]])
    if weight is None:
        weight = b.call(aten.permute.default, turned["turned"], [1, 0])
    layer = b.call(aten.linear.default, x, weight, bias)
    for user in users:
        user.replace_all_uses_with(layer)
    return node


def _rows(layer: Node) -> list[int | torch.SymInt] | None:
    """Returns the sizes into which all users of a layer split its rows; None unless several vary."""
    shapes = {sizes_key(user.meta["val"]) for user in layer.users if user.target is aten.view.default}
    if len(shapes) != 1 or any(user.target is not aten.view.default for user in layer.users):
        return None
    shape = next(iter(layer.users)).meta["val"].shape
    is_divided = len(layer.meta["val"].shape) == 2 and shape[-1:] == layer.meta["val"].shape[-1:]
    several = sum(not isinstance(size, int) for size in shape) > 1
    return list(shape[:-1]) if is_divided and several else None


_ROWS: Final = Call(aten.view.default, ANY, ANY).named("x")
# of GPT-2: [in, out]
_FLOAT: Final = Const("turned").where(lambda weight: dtype_of(weight).is_floating_point)
_DEQUANTIZED: Final = Call(DEQUANTIZE_CONSTANTS, Const("values"), ...).named("turned")
_BIAS: Final = Var("bias").where(lambda bias: len(shape_of(bias)) == 1)
_RULES: Final = fusion(
    Call(aten.linear.default, _ROWS, Var("weight"), Argument("bias"))
    | Call(aten.mm.default, _ROWS, _FLOAT)
    | Call(aten.mm.default, _ROWS, _DEQUANTIZED)
    | Call(aten.addmm.default, _BIAS, _ROWS, _FLOAT)
    | Call(aten.addmm.default, _BIAS, _ROWS, _DEQUANTIZED),
    _unflatten,
)
