# SPDX-License-Identifier: Apache-2.0
"""Keeps sums and means of a program of half precision in float32, with powers before and roots after them.

Norms compute the mean of squares: 256^2 overflows float16. The variance of small activations is subnormal in
float16, that of large ones overflows, but neither does its root.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.value import Scalar, Value, value_of

aten = torch.ops.aten

_MEANS: Final = (aten.mean.default, aten.mean.dim)
_SUMS: Final = (*_MEANS, aten.sum.dim_IntList)
_SHIFTED: Final = (aten.add.Scalar, aten.add.Tensor)
_SCALED: Final = (aten.mul.Scalar, aten.mul.Tensor, aten.div.Scalar, aten.div.Tensor)
_ROOTS: Final = (aten.sqrt.default, aten.rsqrt.default)

# The reciprocal root of a smaller epsilon overflows float16.
_LEAST_EPSILON: Final = 65000.0**-2


def sum_in_float32(builder: Builder, nodes: Iterable[Node], half: torch.dtype) -> None:
    """Computes sums and means in float32, with powers that are operands and roots that are users.

    Additions of, and multiplications by, scalars may occur between a sum and a root.

    Args:
        builder: of the program.
        nodes: calls of it, in order; values that are float32 in the model are already of half precision.
        half: its dtype.
    """
    sums: dict[Node, Node] = {}  # the rounded sum -> the float32 sum
    for node in nodes:
        builder.at(node)
        if node.target in _SUMS and dtype_of(node) == half:
            if node.target not in _MEANS and _was_integer(bind(node)["self"]):
                continue  # The sum of integers is exact, and rounded once.
            wide = _in_float32(builder, node, _summand(builder, bind(node)["self"], half))
        elif _is_root(node) and (inner := _unrounded(builder, bind(node)["self"], sums, half)) is not None:
            wide = _in_float32(builder, node, inner)
        else:
            continue
        rounded = Value(builder, wide).to(half).node
        if node.target in _SUMS:
            sums[rounded] = wide
        replace(node, rounded)


def _summand(builder: Builder, node: Node, half: torch.dtype) -> Node:
    """Returns the operand of a sum in float32; recomputes powers above one and conversions of integers."""
    operands: list[Any] = list(node.args)
    if _was_integer(node):
        return _in_float32(builder, node, operands[0])
    if node.target in (aten.pow.Tensor_Scalar, aten.mul.Tensor) and dtype_of(node) == half:
        base, factor = operands
        is_power = factor > 1 if node.target is aten.pow.Tensor_Scalar else base is factor
        if is_power and dtype_of(base) == half:
            return _in_float32(builder, node, value_of(builder, base, torch.float32).node)
    return value_of(builder, node, torch.float32).node


def _was_integer(node: Node) -> bool:
    """Whether a node converts integers or bools."""
    return node.target is aten._to_copy.default and not dtype_of(bind(node)["self"]).is_floating_point


def _is_root(node: Node) -> bool:
    if node.target is aten.pow.Tensor_Scalar:
        return bool(abs(bind(node)["exponent"]) < 1)
    return node.target in _ROOTS


def _unrounded(builder: Builder, node: Node, sums: dict[Node, Node], half: torch.dtype) -> Node | None:
    """Returns a sum, including scalars added or multiplied, in float32; None for other nodes.

    Epsilons are raised to `_LEAST_EPSILON` with float16.
    """
    if node in sums:
        return sums[node]
    if node.target not in (*_SHIFTED, *_SCALED):
        return None
    bound = bind(node)
    scalar = bound["other"]
    if isinstance(scalar, Node) or bound.get("alpha", 1) != 1:
        return None
    inner = _unrounded(builder, bound["self"], sums, half)
    if inner is None:
        return None
    if node.target in _SHIFTED and scalar > 0 and half == torch.float16:
        scalar = max(scalar, _LEAST_EPSILON)
    return _in_float32(builder, node, inner, scalar)


def _in_float32(builder: Builder, node: Node, wide: Node, *scalar: Scalar) -> Node:
    """Repeats a call in float32 with another first operand, and optionally another scalar."""
    args: list[Any] = [wide if each is node.args[0] else each for each in node.args]
    args[1 : 1 + len(scalar)] = scalar
    target: Any = node.target
    kwargs = {
        key: torch.float32 if value in (torch.float16, torch.bfloat16) else value
        for key, value in node.kwargs.items()
    }
    return builder.call(target, *args, val=builder.empty(shape_of(node), torch.float32), **kwargs)
