# SPDX-License-Identifier: Apache-2.0
"""Comparisons and logic for targets without bools, which become the integers 0 and 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.backends.arm.integer.constants import constant_of
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.from_integers import integer_values
from delegatec.backends.arm.integer.quantized_regions import is_bool, is_float
from delegatec.backends.arm.integer.rounding import as_integers
from delegatec.backends.arm.integer.selection import in_one_scale
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, UnsupportedError
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.value import Value
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_UNIT: Final = Quantization.full_range(torch.int8, 1.0)
_INT32: Final = torch.iinfo(torch.int32)
FAR: Final = 1 << 29
"""Differences of integers below this fit int32, with a margin."""


# ---- 0 and 1 ---------------------------------------------------------------------------------------------


def mask(conversion: Conversion, operand: Any) -> Quantized | Fixed:
    """Returns a bool value as integers, or as a constant."""
    value = conversion.of(operand)
    if isinstance(value, Fixed):
        return value
    if isinstance(value, Quantized) and (value.scale, value.limit) == ((1.0,), 1):
        return value
    return replace(conversion.quantized(value, _UNIT), limit=1)


def bits_of(conversion: Conversion, found: Quantized | Fixed, rank: int) -> Value:
    """Returns a bool value, see `mask`, as int32."""
    arithmetic = conversion.arithmetic
    if isinstance(found, Fixed):
        # NPUs widen int8 while they read it
        quantized = arithmetic.constant(found.values.to(torch.int8), rank)
        found = Quantized(quantized, (1.0,), 0, 1)
    return Value(arithmetic.builder, arithmetic.accumulate(found, 1.0))


def _is_positive(conversion: Conversion, x: Value, limit: int) -> Quantized:
    """Returns 1 where integers are positive, else 0."""
    found = conversion.quantized(Quantized(x.node, (1.0,), 0, limit, low=0.0, high=1.0), _UNIT)
    return replace(found, limit=1)


# ---- comparisons -----------------------------------------------------------------------------------------


def _compared(
    conversion: Conversion, name: str, x: Value, y: Value, limit: int, far: bool = False
) -> Quantized:
    """Returns a comparison of int32.

    Args:
        conversion: the state.
        name: of the operator.
        x: an operand.
        y: the other operand.
        limit: a bound of their difference.
        far: whether this may be beyond int32.
    """
    if name in ("lt", "le"):
        x, y = y, x
    difference = _exceeds(x, y) - _exceeds(y, x) if far else x - y
    if name in ("eq", "ne"):
        difference = difference.abs()
    if name in ("ge", "le"):
        difference = difference + 1
    if name == "eq":
        difference = 1 - difference
    return _is_positive(conversion, difference, limit + 1)


def _exceeds(x: Value, y: Value) -> Value:
    """Returns 1 where x > y, else 0: a difference of values that are close to each other."""
    return x.maximum(y).minimum(y.clamp(_INT32.min, _INT32.max - 1) + 1) - y


def check_bits(operands: Iterable[Any]) -> None:
    """Checks that operands are bool, or the values 0 and 1.

    Raises:
        UnsupportedError: one has another value, which would become one of these.
    """
    if not all(is_bool(each) if isinstance(each, Node) else each in (0, 1) for each in operands):
        raise UnsupportedError("there is no arithmetic of bools with other dtypes")


def _comparison(name: str) -> Convert:
    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        operands = bound["self"], bound["other"]
        nodes = [each for each in operands if isinstance(each, Node)]
        rank, builder = len(shape_of(node)), conversion.arithmetic.builder
        if any(map(is_float, nodes)):
            x, y = (Value(builder, each) for each in in_one_scale(conversion, node))
            return _compared(conversion, name, x, y, FAR - 2)
        if any(map(is_bool, nodes)):
            check_bits(operands)
            x, y = (bits_of(conversion, mask(conversion, each), rank) for each in operands)
            return _compared(conversion, name, x, y, 1)
        return _of_integers(conversion, name, operands, rank)

    return convert


def _of_integers(conversion: Conversion, name: str, operands: tuple[Any, Any], rank: int) -> Quantized:
    (x, low, high), (y, least, most) = (integer(conversion, each, rank) for each in operands)
    limit = max(high - least, most - low)
    if limit < FAR:
        return _compared(conversion, name, x, y, limit)
    if conversion.constant(y.node) is not None:
        return _compared(conversion, name, _near(x, y), y, 1)
    if conversion.constant(x.node) is not None:
        return _compared(conversion, name, x, _near(y, x), 1)
    return _compared(conversion, name, x, y, 1, far=True)


def _near(x: Value, other: Value) -> Value:
    """Clamps integers to those next to constants."""
    above = other.clamp(_INT32.min, _INT32.max - 1) + 1
    return x.maximum(other.clamp(_INT32.min + 1, _INT32.max) - 1).minimum(above)


def integer(conversion: Conversion, operand: Any, rank: int) -> tuple[Value, int, int]:
    """Returns an integer operand as int32, and its bounds."""
    arithmetic = conversion.arithmetic
    if not isinstance(operand, Node):
        if not isinstance(operand, int):
            raise UnsupportedError(f"integers and {operand}")
        found = torch.tensor(operand)
    else:
        value = constant_of(conversion, operand)
        if value is None:
            quantized = integer_values(conversion, operand)
            interval = arithmetic.builder.facts.of(operand)
            low, high = max(interval.low, _INT32.min), min(interval.high, _INT32.max)
            return Value(arithmetic.builder, arithmetic.accumulate(quantized, 1.0)), int(low), int(high)
        found = value.values if isinstance(value, Fixed) else value
    low, high = int(found.min()), int(found.max())
    if low < _INT32.min or high > _INT32.max:
        raise UnsupportedError(f"integers from {low} to {high}")
    return Value(arithmetic.builder, arithmetic.constant(found.to(torch.int32), rank)), low, high


def record(conversion: Conversion, node: Node, found: Value, limit: int) -> None:
    """Records the integers of a call as its result."""
    quantized = Quantized(found.node, (1.0,), 0, limit)
    conversion.replaced[node] = as_integers(conversion, quantized, dtype_of(node))


# ---- logic -----------------------------------------------------------------------------------------------


def _logical(function: Callable[..., Value]) -> Convert:
    def convert(conversion: Conversion, node: Node) -> Quantity:
        operands = list(bind(node).values())
        if not all(is_bool(each) for each in operands if isinstance(each, Node)):
            raise UnsupportedError("a logical operator on values that are not bool")
        masks = [mask(conversion, each) for each in operands]
        found = function(*(bits_of(conversion, each, len(shape_of(node))) for each in masks))
        return Quantized(found.node, (1.0,), 0, 1)

    return convert


def _reduced(target: Any) -> Convert:
    """Converts `any` to a maximum, and `all` to a minimum."""

    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        check_bits([bound["self"]])
        found = conversion.quantized(mask(conversion, bound["self"]), _UNIT)
        rank, dims = len(found.shape), bound.get("dim")
        dims = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
        if not rank or not dims:
            raise UnsupportedError("a reduction over no dimension")
        args = (found.node, sorted(positive(dim, rank) for dim in dims), bool(bound.get("keepdim")))
        result = conversion.arithmetic.call(target, *args, dtype=torch.int8, shape=shape_of(node))
        return replace(found, node=result, limit=1)

    return convert


def _copy(conversion: Conversion, node: Node) -> Quantity | None:
    source, rank = bind(node)["self"], len(shape_of(node))
    if not is_bool(source):
        raise UnsupportedError("a conversion to bool")
    if is_float(node) or is_bool(node):
        return conversion.of(source)
    record(conversion, node, bits_of(conversion, mask(conversion, source), rank), 1)
    return None


def promoted(conversion: Conversion, node: Node) -> None:
    """Converts integer arithmetic that promotes bools."""
    if not isinstance(node.target, OpOverload) or torch.Tag.pointwise not in node.target.tags:
        raise UnsupportedError("there is no integer arithmetic for this operator on bool")
    shape, dtype = shape_of(node), dtype_of(node)

    def operand(value: Node) -> Node:
        if not is_bool(value):
            found: Node = conversion.node(value)
            return found
        return as_integers(conversion, mask(conversion, value), dtype)

    args, kwargs = map_arg((node.args, node.kwargs), operand)
    conversion.replaced[node] = conversion.arithmetic.call(
        node.target, *args, dtype=dtype, shape=shape, **kwargs
    )


MASKS: Final[Mapping[Any, Convert]] = {
    **{
        getattr(getattr(aten, name), variant): _comparison(name)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for variant in ("Tensor", "Scalar")
    },
    **dict.fromkeys((aten.bitwise_and.Tensor, aten.logical_and.default), _logical(lambda x, y: x * y)),
    **dict.fromkeys((aten.bitwise_or.Tensor, aten.logical_or.default), _logical(lambda x, y: x.maximum(y))),
    **dict.fromkeys(
        (aten.bitwise_xor.Tensor, aten.logical_xor.default), _logical(lambda x, y: (x - y).abs())
    ),
    **dict.fromkeys((aten.bitwise_not.default, aten.logical_not.default), _logical(lambda x: 1 - x)),
    **dict.fromkeys((aten.any.default, aten.any.dim, aten.any.dims), _reduced(aten.amax.default)),
    **dict.fromkeys((aten.all.default, aten.all.dim, aten.all.dims), _reduced(aten.amin.default)),
    aten._to_copy.default: _copy,
}
"""Conversions of calls with bool operands or results."""
