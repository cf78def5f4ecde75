# SPDX-License-Identifier: Apache-2.0
"""Replaces reshape -> bmm -> reshape by one `matmul` on the unflattened batch dimensions."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.merge import merge_movements
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

Shape = list[int | torch.SymInt]


def unflatten_bmm(program: EdgeProgram) -> bool:
    """Keeps the batch dimensions of matrix products, if a view would have to split varying sizes.

    Attention that a model computes with `matmul` multiplies [batch * heads, length, depth]: a backend that
    infers one size of a view cannot split the result. The product becomes `matmul`, which is not in normal
    form: of operands of the rank of the result, whose batch dimensions broadcast.

    Args:
        program: edited in place.

    Returns:
        Whether it had such products.
    """
    changed = rewrite(program, {aten.bmm.default: _unflatten})
    if changed:
        merge_movements(program)
        eliminate_common(program)
        eliminate_dead_code(program)
    return changed


def _unflatten(b: Builder, node: Node) -> Node | None:
    batch = _batch(node)
    if batch is None:
        return None
    users = list(node.users)
    first, second = (_operand(b, bind(node)[name], batch) for name in ("self", "mat2"))
    product = b.call(aten.matmul.default, first, second)
    result_shape = [*batch, *_sizes(node)[-2:]]
    if sizes_key(_sizes(product)) != sizes_key(result_shape):
        # Both operands were copied along a dimension.
        product = b.call(aten.expand.default, product, result_shape)
    product = b.call(aten.view.default, product, _sizes(users[0]))
    for user in users:
        user.replace_all_uses_with(product)
    return node


def _batch(product: Node) -> Shape | None:
    """Returns the batch dimensions into which all users split a product; None unless several sizes vary."""
    users, bound = list(product.users), bind(product)
    if not users or not dtype_of(product).is_floating_point:
        return None
    if any(each.target is not aten.view.default for each in users):
        return None
    if not all(bound[name].target is aten.view.default or _is_one(bound[name]) for name in ("self", "mat2")):
        return None
    shape, old = _sizes(users[0]), _sizes(product)
    if any(sizes_key(_sizes(user)) != sizes_key(shape) for user in users):
        return None
    # einsum has dimensions of size one for those that only the other operand has
    batch = _before(shape, old[-2:])
    operands = [[*(batch or ()), *_sizes(bound[name])[-2:]] for name in ("self", "mat2")]
    several = max(_varying(sizes) for sizes in (*operands, shape)) > 1
    return batch if batch and several and not isinstance(old[0], int) else None


def _before(shape: Shape, matrix: Shape) -> Shape | None:
    """Returns the sizes of a shape before those of a matrix, if several; sizes of one do not matter."""
    pending = [key for key in sizes_key(matrix) if key != 1]
    left = list(shape)
    while left and (pending or (isinstance(left[-1], int) and left[-1] == 1)):
        (key,) = sizes_key([left.pop()])
        if key != 1 and key != pending.pop():
            return None
    return left if not pending and len(left) > 1 else None


def _varying(shape: Shape) -> int:
    return sum(not isinstance(size, int) for size in shape)


def _is_one(operand: Node) -> bool:
    """Whether an operand is copies of one matrix."""
    if operand.target is not aten.expand.default:
        return False
    return all(isinstance(size, int) and size == 1 for size in _sizes(bind(operand)["self"])[:-2])


def _sizes(node: Node) -> Shape:
    return list(node.meta["val"].shape)


def _operand(builder: Builder, view: Node, batch: Shape) -> Node:
    """Returns an operand with separate batch dimensions, without the copies that a product makes itself."""
    shape = [*batch, *view.meta["val"].shape[-2:]]
    source: Node = view if _is_one(view) else bind(view)["self"]
    is_copied = source.target is aten.expand.default
    if is_copied and (source is view or sizes_key(_sizes(source)) == sizes_key(shape)):
        copied: Node = bind(source)["self"]
        sizes = _sizes(copied)
        return builder.call(aten.view.default, copied, [*[1] * (len(shape) - len(sizes)), *sizes])
    return builder.call(aten.view.default, view, shape)
