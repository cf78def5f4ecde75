# SPDX-License-Identifier: Apache-2.0
"""Recovers `aten.rms_norm` from its arithmetic, for backends that have an operator for it."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.formulas import cast, reciprocal, rsqrt, sqrt
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, Call, Const, Pattern, Scalar, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten

_HALVES: Final = (torch.float16, torch.bfloat16)
_EPSILON: Final = torch.finfo(torch.float32).eps


def recover_rms_norm(program: EdgeProgram) -> bool:
    """Replaces `x / sqrt(mean(x ** 2) + epsilon) * weight` over the last dimension.

    The reciprocal root may be computed in any of the usual ways, and in float32 for half precision. The
    weight is part of the norm if it is a constant. The default epsilon of float32 becomes a scalar.

    Args:
        program: edited in place.

    Returns:
        Whether the program had norms.
    """
    return rewrite(program, _RULES, users_first=True)


def _is_of_rows(mean: Node) -> bool:
    bound = bind(mean)
    x = bound["self"]
    is_last = bound["dim"] in ([-1], [len(shape_of(x)) - 1]) and isinstance(shape_of(x)[-1], int)
    return is_last and dtype_of(mean) == dtype_of(x)


def _normalized(x: Pattern) -> Pattern:
    mean = Call(aten.mean.dim, x * x | x**2, ANY, True, dtype=ANY).where(_is_of_rows)
    variance = mean + Scalar("epsilon")
    return x / sqrt(variance) | x * (rsqrt(variance) | reciprocal(sqrt(variance)))


_X: Final = Var("x")
_IN_FLOAT32: Final = cast(_normalized(cast(_X).named("converted")).one_use())
_NORM: Final = _IN_FLOAT32 | _normalized(_X)


def _norm(
    b: Builder, node: Node, x: Node, epsilon: float, weight: Node | None = None, converted: Node | None = None
) -> Node | None:
    if converted is not None and (dtype_of(x) != dtype_of(node) or dtype_of(x) not in _HALVES):
        return None
    if dtype_of(node) != dtype_of(x):
        return None
    size, row = shape_of(x)[-1], None
    if weight is not None:
        row = _row(b, weight, size, len(shape_of(x)))
        if row is None or dtype_of(weight) != dtype_of(x):
            return None
    norm = b.call(aten.rms_norm.default, x, [size], row, epsilon, val=node.meta["val"])
    norm.meta.pop(FLOAT32, None)  # its statistics are float32
    return norm


def _row(b: Builder, weight: Node, size: int, rank: int) -> Node | None:
    """Returns a weight for each element of the last dimension."""
    tensor = b.facts.constant(weight)
    if (
        tensor is None
        or not same_sizes(tensor.shape[-1:], (size,))
        or tensor.numel() != size
        or tensor.dim() > rank
    ):
        return None
    return weight if tensor.dim() == 1 else b.derived(weight, tensor.reshape(size))


def _with_epsilon(_: Builder, node: Node) -> Node | None:
    arguments = bind(node)
    if arguments["eps"] is not None or dtype_of(node) != torch.float32:
        return None
    node.args = (*(arguments[name] for name in ("input", "normalized_shape", "weight")), _EPSILON)
    node.kwargs = {}
    return node


_RULES: Final = {
    **fusion(_NORM.one_use() * Const("weight") | _NORM, _norm),
    aten.rms_norm.default: _with_epsilon,
}
