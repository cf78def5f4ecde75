# SPDX-License-Identifier: Apache-2.0
"""Intervals of the results of operators, from those of their operands."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from torch.fx import Node

from delegatec.edge.analysis.interval import FORMATS, UNKNOWN, Interval, union
from delegatec.edge.analysis.transparent import ORDERED, elements_of, overloads
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

Rule = Callable[..., Interval]
"""A node, and the interval of each operand (None for an absent one) -> that of the exact results."""


def operands_and_rule(node: Node) -> tuple[list[Any], Rule | None]:
    """Returns the operands (nodes and scalars) that determine a node's interval, and the rule, if any."""
    elements = elements_of(node)
    if elements is not None:
        return elements, _union
    if node.target not in _RULES:
        return [], None
    names, rule = _RULES[node.target]
    return [bind(node)[name] for name in names], rule


def _union(_node: Node, *operands: Interval) -> Interval:
    return union(*operands)


def _corners(combine: Callable[..., float]) -> Rule:
    """Returns the rule of a function that is monotonic in each operand and maps integers to integers."""

    def rule(_node: Node, *operands: Interval) -> Interval:
        ends = ({each.low, each.high} for each in operands)
        values = [combine(*corner) for corner in itertools.product(*ends)]
        is_integral = all(each.is_integral for each in operands)
        return UNKNOWN if any(map(math.isnan, values)) else Interval(min(values), max(values), is_integral)

    return rule


def _constantly(low: float, high: float, is_integral: bool = False) -> Rule:
    return lambda _node: Interval(low, high, is_integral)


def _rounded_by(function: Callable[[float], int]) -> Rule:
    def rule(_node: Node, operand: Interval) -> Interval:
        low, high = (end if math.isinf(end) else function(end) for end in operand[:2])
        return Interval(low, high, True)

    return rule


def _quotient(node: Node, dividend: Interval, divisor: Interval) -> Interval:
    if divisor.low <= 0 <= divisor.high:
        return UNKNOWN
    return _corners(operator.truediv)(node, dividend, divisor)._replace(is_integral=False)


def _remainder(_node: Node, dividend: Interval, divisor: Interval) -> Interval:
    if divisor.low <= 0:
        return UNKNOWN
    return Interval(0, divisor.high, dividend.is_integral and divisor.is_integral)


def _clamp(_node: Node, operand: Interval, least: Interval | None, most: Interval | None) -> Interval:
    for bound, choose in ((least, max), (most, min)):
        if bound is not None:
            is_integral = operand.is_integral and bound.is_integral
            operand = Interval(choose(operand.low, bound.low), choose(operand.high, bound.high), is_integral)
    return operand


def _abs(_node: Node, operand: Interval) -> Interval:
    return Interval(max(operand.low, -operand.high, 0), max(-operand.low, operand.high), operand.is_integral)


def _relu(_node: Node, operand: Interval) -> Interval:
    return Interval(max(operand.low, 0), max(operand.high, 0), operand.is_integral)


def _from(least: float) -> Rule:
    """Returns the rule of an activation with a least value, which is at most its operand, or 0."""
    return lambda _node, operand: Interval(least, max(operand.high, 0), False)


def _quantized(node: Node, operand: Interval) -> Interval:
    bound = bind(node)
    least, most = bound["quant_min"], bound["quant_max"]
    ends = (end / bound["scale"] + bound["zero_point"] for end in operand[:2])
    low, high = (round(min(max(end, least), most)) for end in ends)
    return Interval(low, high, True)


def _dequantized(node: Node, quantized: Interval) -> Interval:
    bound = bind(node)
    low, high = ((end - bound["zero_point"]) * bound["scale"] for end in quantized[:2])
    return Interval(low, high, False)


def _arange(node: Node, start: Interval, step: Interval) -> Interval:
    count = node.meta["val"].numel()
    ends = (start.low, start.low + (count - 1) * step.low) if isinstance(count, int) else ()
    if start.low != start.high or step.low != step.high or not ends:
        return UNKNOWN
    return Interval(min(ends), max(ends), start.is_integral and step.is_integral)


def _total(node: Node, operand: Interval) -> Interval:
    """Bounds sums of one or more elements; in floating point, only if no sum is rounded."""
    source: Any = node.args[0]
    count = source.meta["val"].numel()
    if not isinstance(count, int):
        return UNKNOWN
    low, high = min(operand.low, operand.low * count), max(operand.high, operand.high * count)
    exact = 2 ** FORMATS[dtype_of(node)][0] if dtype_of(node) in FORMATS else math.inf
    return Interval(low, high, True) if operand.is_integral and -exact <= low and high <= exact else UNKNOWN


def _position(node: Node) -> Interval:
    source = node.args[0] if node.target is operator.getitem else node
    if not isinstance(source, Node) or (source is not node and source.target not in ORDERED):
        return UNKNOWN
    bound = bind(source)
    shape = bound["self"].meta["val"].shape
    size = math.prod(shape) if bound["dim"] is None or not shape else shape[bound["dim"]]
    return Interval(0, size - 1, True) if isinstance(size, int) else UNKNOWN


def _rows(names: str, rule: Rule, *operands: str) -> dict[Any, tuple[tuple[str, ...], Rule]]:
    return dict.fromkeys(overloads(names), (operands, rule))


_RULES: Final[Mapping[Any, tuple[tuple[str, ...], Rule]]] = {
    **_rows("_to_copy to.dtype to.dtype_layout to.device type_as", _union, "self"),
    **_rows("add.Tensor add.Scalar", _corners(lambda a, b, alpha: a + alpha * b), "self", "other", "alpha"),
    **_rows("sub.Tensor sub.Scalar", _corners(lambda a, b, alpha: a - alpha * b), "self", "other", "alpha"),
    **_rows("rsub.Tensor rsub.Scalar", _corners(lambda a, b, alpha: b - alpha * a), "self", "other", "alpha"),
    **_rows("mul.Tensor mul.Scalar", _corners(operator.mul), "self", "other"),
    **_rows("div.Tensor div.Scalar", _quotient, "self", "other"),
    **_rows("neg", _corners(operator.neg), "self"),
    **_rows("maximum", _corners(max), "self", "other"),
    **_rows("minimum", _corners(min), "self", "other"),
    **_rows("remainder.Tensor remainder.Scalar", _remainder, "self", "other"),
    **_rows("clamp", _clamp, "self", "min", "max"),
    **_rows("abs", _abs, "self"),
    **_rows("relu", _relu, "self"),
    **_rows("hardtanh", _clamp, "self", "min_val", "max_val"),
    **_rows("exp", _constantly(0, math.inf)),
    **_rows("gelu", _from(-0.1701), "self"),
    **_rows("hardswish", _from(-0.375), "self"),
    QUANTIZE: (("input",), _quantized),
    DEQUANTIZE: (("input",), _dequantized),
    **_rows("ceil", _rounded_by(math.ceil), "self"),
    **_rows("floor", _rounded_by(math.floor), "self"),
    **_rows("round", _rounded_by(round), "self"),
    **_rows("trunc", _rounded_by(math.trunc), "self"),
    **_rows("sum sum.dim_IntList cumsum", _total, "self"),
    **_rows("arange.start_step", _arange, "start", "step"),
    **_rows("argmax argmin", _position),
    **_rows("_softmax sigmoid", _constantly(0, 1)),
    **_rows("cos erf sin tanh", _constantly(-1, 1)),
    **_rows("new_zeros zeros zeros_like", _constantly(0, 0, True)),
    **_rows("new_ones ones ones_like", _constantly(1, 1, True)),
    operator.getitem: ((), _position),
}
