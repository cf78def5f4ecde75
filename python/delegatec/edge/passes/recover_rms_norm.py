# SPDX-License-Identifier: Apache-2.0
"""Recovers `aten.rms_norm` from its arithmetic, for backends that have an operator for it."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_SUMS: Final = (aten.add.Scalar, aten.add.Tensor)
_HALVES: Final = (torch.float16, torch.bfloat16)


def recover_rms_norm(program: EdgeProgram) -> bool:
    """Replaces `x / sqrt(mean(x ** 2) + eps) * weight` over the last dimension.

    The reciprocal root may be computed in any of the usual ways, and in float32 for half precision. The
    weight is part of the norm if it is a constant. The default epsilon of float32 becomes a number.

    Args:
        program: edited in place.

    Returns:
        Whether the program had norms.
    """
    changed = False
    for node in list(program.graph.nodes):
        if node.target is aten.rms_norm.default:
            changed |= _set_epsilon(node)
        elif node.target in (aten.mul.Tensor, aten.div.Tensor):
            changed |= _recover(program, node)
    if changed:
        eliminate_dead_code(program)
    return changed


def _set_epsilon(node: Node) -> bool:
    arguments = bind(node)
    if arguments["eps"] is not None or dtype_of(node) != torch.float32:
        return False
    node.args = (*(arguments[name] for name in ("input", "normalized_shape", "weight")), _EPSILON)
    node.kwargs = {}
    return True


_EPSILON: Final = torch.finfo(torch.float32).eps


def _recover(program: EdgeProgram, node: Node) -> bool:
    found = _normalized(program, node)
    if found is None:
        return False
    x, epsilon = found
    last, weight = _rounded(x, node), None
    if last is not node:
        x = x.all_input_nodes[0]
    builder = Builder(program)
    users = list(last.users)
    if len(users) == 1 and users[0].target is aten.mul.Tensor:
        weight = _weight(builder.at(users[0]), x, last, users[0])
        last = users[0] if weight is not None else last
    norm = builder.at(last).call(
        aten.rms_norm.default, x, [shape_of(x)[-1]], weight, epsilon, val=last.meta["val"]
    )
    norm.meta.pop(FLOAT32, None)  # its statistics are float32
    last.replace_all_uses_with(norm)
    program.graph.erase_node(last)
    return True


def _normalized(program: EdgeProgram, node: Node) -> tuple[Node, float] | None:
    """Returns `x` and the epsilon if a node is `x / sqrt(mean(x ** 2) + epsilon)`."""
    left, right = node.args[:2]
    pairs = [(left, right)] if node.target is aten.div.Tensor else [(left, right), (right, left)]
    for x, factor in pairs:
        shifted = _under_root(factor, node.target is aten.div.Tensor)
        if not isinstance(x, Node) or shifted is None or shifted.target not in _SUMS:
            continue
        for mean, epsilon in (shifted.args[:2], shifted.args[1::-1]):
            number = _number(program, epsilon)
            if number is not None and _is_mean_of_squares(mean, x) and dtype_of(x) == dtype_of(node):
                return x, number
    return None


def _under_root(factor: Any, divides: bool) -> Node | None:
    """Returns the operand of a root by which a node divides, or of a reciprocal root."""
    if not isinstance(factor, Node):
        return None
    if not divides and factor.target is aten.reciprocal.default:
        return _under_root(factor.args[0], True)
    power = 0.5 if divides else -0.5
    is_power = factor.target is aten.pow.Tensor_Scalar and factor.args[1] == power
    is_root = factor.target is (aten.sqrt.default if divides else aten.rsqrt.default)
    source = factor.args[0] if is_power or is_root else None
    return source if isinstance(source, Node) else None


def _number(program: EdgeProgram, value: Any) -> float | None:
    if isinstance(value, Node):
        constant = program.constants.get(value.name) if value.name in program.fixed_constants() else None
        return float(constant) if constant is not None and constant.numel() == 1 else None
    return float(value) if isinstance(value, (int, float)) else None


def _is_mean_of_squares(mean: Any, x: Node) -> bool:
    if not isinstance(mean, Node) or mean.target is not aten.mean.dim:
        return False
    arguments, rank = bind(mean), len(shape_of(x))
    if not arguments["keepdim"] or arguments["dim"] not in ([-1], [rank - 1]):
        return False
    if not isinstance(shape_of(x)[-1], int) or dtype_of(mean) != dtype_of(x):
        return False
    square = arguments["self"]
    if square.target is aten.mul.Tensor:
        return bool(square.args[0] is square.args[1] is x)
    return square.target is aten.pow.Tensor_Scalar and square.args[0] is x and square.args[1] == 2


def _rounded(x: Node, node: Node) -> Node:
    """Returns the only user of a norm if it rounds to half precision, from which `x` was converted."""
    (user, *others) = node.users or [node]
    if others or aten._to_copy.default not in {x.target} & {user.target}:
        return node
    (source,) = x.all_input_nodes
    return user if dtype_of(source) == dtype_of(user) and dtype_of(source) in _HALVES else node


def _weight(builder: Builder, x: Node, norm: Node, product: Node) -> Node | None:
    """Returns the constant by which elements of the last dimension are multiplied, as a row."""
    (weight,) = [each for each in product.args if each is not norm] or [None]
    size = shape_of(x)[-1]
    if not isinstance(weight, Node) or weight.name not in builder.program.fixed_constants():
        return None
    tensor = builder.program.constants[weight.name]
    if tensor.shape[-1:] != (size,) or tensor.numel() != size or tensor.dim() > len(shape_of(x)):
        return None
    if dtype_of(weight) != dtype_of(product) or dtype_of(product) != dtype_of(x):
        return None
    return weight if tensor.dim() == 1 else builder.derived(weight, tensor.reshape(size))
