# SPDX-License-Identifier: Apache-2.0
"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.rules.ranks import again, low_rank
from delegatec.edge.legalize.rules.reductions import sum_of
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_SOFTMAX: Final = aten._softmax.default
_LOG_SOFTMAX: Final = aten._log_softmax.default


def _normal_form(b: Builder, node: Node) -> Node:
    a = bind(node)
    x = a["self"]
    if a["dtype"] is not None and a["dtype"] != dtype_of(x):
        x = b.call(aten._to_copy.default, x, dtype=a["dtype"])
    core = _SOFTMAX if node.target is aten.softmax.int else _LOG_SOFTMAX
    return b.call(core, x, a["dim"], False, val=node.meta["val"])


def _low_rank(builder: Builder, node: Node) -> Any:
    x = value_of(builder, bind(node)["self"])
    joined, dim = low_rank(x, bind(node)["dim"])
    return None if joined.shape == x.shape else again(builder, node, self=joined.node, dim=dim)


def last_dimension(builder: Builder, node: Node) -> Node | None:
    """Moves the dimension to the end."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if x.rank < 2:
        return None
    order = [*range(x.rank)]
    order.append(order.pop(positive(bound["dim"], x.rank)))
    rows = x.permute(*order)
    value = builder.empty(rows.shape, dtype_of(node))
    result = builder.call(node.target, rows.node, x.rank - 1, bound["half_to_float"], val=value)
    return Value(builder, result).permute(*(order.index(dim) for dim in range(x.rank))).node


# ---- without the operator --------------------------------------------------------------------------------


def _operand(builder: Builder, node: Node) -> tuple[Value, int]:
    """Returns the operand, half precision in float32, and the dimension; a scalar has one dimension."""
    bound = bind(node)
    x = value_of(builder, bound["self"], dtype_of(node)).widened()
    x = x if x.shape else x.view(1)
    return x, positive(bound["dim"], x.rank)


def _by_arithmetic(builder: Builder, node: Node) -> Node:
    x, dim = _operand(builder, node)
    powers = (x - x.amax([dim], keepdim=True)).exp()
    result = powers / powers.sum([dim], keepdim=True)
    return result.view(*shape_of(node)).to(dtype_of(node)).node


def log_softmax_by_arithmetic(builder: Builder, node: Node) -> Node:
    """Subtracts the logarithm of the sum of exponentials."""
    x, dim = _operand(builder, node)
    return log_softmax(x, dim, x).view(*shape_of(node)).to(dtype_of(node)).node


def log_softmax(x: Value, dim: int, same_maxima: Value) -> Value:
    """Returns the logarithm of the softmax along a dimension, by a value with the same maxima."""
    shifted = x - same_maxima.amax([dim], keepdim=True)
    return shifted - shifted.exp().sum([dim], keepdim=True).log()


def _log_softmax_by_mean(builder: Builder, node: Node) -> Node:
    """Computes (x - m) - log(sum(exp(x - m))) in float32, where m is the mean of x weighted by the softmax.

    The logarithm of the softmax would be minus infinity where that underflows. m is less than the largest x
    by no more than the logarithm of their number, so that nothing overflows; the entropy of the softmax is
    what it lacks.
    """
    bound = bind(node)
    x, dim = low_rank(value_of(builder, bound["self"], torch.float32), bound["dim"])
    weight = x.softmax(dim)
    # Next to a weight of zero, x may be minus infinity.
    weighed = weight.eq(0.0).where(weight, weight * x)
    shifted = x - sum_of(weighed, [dim], keepdim=True)
    total = sum_of(shifted.exp(), [dim], keepdim=True)
    return (shifted - total.log()).view(*shape_of(node)).to(dtype_of(node)).node


RULES: Final[RuleTable] = {aten.softmax.int: _normal_form, aten.log_softmax.int: _normal_form}

REWRITES: Final = (
    *(
        Rewrite(target, _low_rank, note="of rank above 4, with merged dimensions")
        for target in (_SOFTMAX, _LOG_SOFTMAX)
    ),
    Rewrite(
        _LOG_SOFTMAX,
        _log_softmax_by_mean,
        (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),),
        note="with the mean, as the softmax weighs it, instead of the largest",
    ),
)

LOG_BY_ARITHMETIC: Final = Rewrite(
    _LOG_SOFTMAX, log_softmax_by_arithmetic, note="the logarithm of the sum of exponentials, in float32"
)
BY_ARITHMETIC: Final = (Rewrite(_SOFTMAX, _by_arithmetic), LOG_BY_ARITHMETIC)
LAST_DIMENSION: Final = Rewrite(_SOFTMAX, last_dimension, note="the dimension is moved to the end")
