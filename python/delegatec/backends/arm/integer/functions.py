# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, as table lookups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, TableFunction, UnsupportedError
from delegatec.backends.common.row import overload
from delegatec.edge.arguments import dtype_of, shape_of

aten = torch.ops.aten

_EXACT: Final = frozenset(
    overload(name)
    for name in (
        *(f"{name}.{variant}" for name in ("add", "sub", "mul", "div") for variant in ("Tensor", "Scalar")),
        *("reciprocal", "rsqrt", "sqrt", "log", "log2", "log10", "log1p"),
        *("rsub.Scalar", "neg", "abs", "where.self", "maximum", "minimum", "pow.Tensor_Scalar"),
        *("floor", "ceil", "round", "trunc", "sign"),
    )
)
_JUMPS: Final = frozenset(
    overload(name)
    for name in (
        *("atan2", "copysign.Tensor", "div.Scalar_mode", "div.Tensor_mode", "floor_divide", "fmod.Scalar"),
        *("fmod.Tensor", "hardshrink", "heaviside", "remainder.Scalar", "remainder.Tensor", "round.decimals"),
        "threshold",
    )
)
"""Interpolation joins both sides of a jump."""
_OTHERS: Final = frozenset({aten.prelu.default, aten._prelu_kernel.default, aten._to_copy.default})


def table_function(conversion: Conversion, node: Node) -> TableFunction | None:
    """Returns a call as a function of the quantized values of one value; None if it is not one."""
    if not is_tabulated(node):
        return None
    operands = [
        conversion.quantities.get(each) or conversion.conditions.get(each) for each in node.all_input_nodes
    ]
    source: Quantized | None = None
    for each in operands:
        found = (
            each.source if isinstance(each, TableFunction) else each if isinstance(each, Quantized) else None
        )
        if found is not None:
            found = replace(found, low=-math.inf, high=math.inf)
            if not found.is_narrow or (source is not None and found != source):
                return None
            if found.dtype == torch.int16 and (is_exact(node) or not conversion.arithmetic.wide_tables):
                return None
            source = found
        elif not isinstance(each, Fixed) or each.uniform is None:
            return None
    if source is None or source.shape != shape_of(node):
        return None

    def values(operand: Node) -> Tensor:
        found = conversion.conditions.get(operand) or conversion.of(operand)
        values = found.uniform if isinstance(found, Fixed) else found.values
        assert values is not None
        return values

    return TableFunction(source, result_of(node, values))


def is_tabulated(node: Node) -> bool:
    """Whether a call is an elementwise function, of floating point or bool."""
    target: Any = node.target
    if torch.Tag.pointwise not in getattr(target, "tags", ()) and target not in _OTHERS:
        return False
    if not isinstance(node.meta["val"], Tensor):
        return False  # frexp
    dtype = dtype_of(node)
    return dtype.is_floating_point or dtype == torch.bool


def is_exact(node: Node) -> bool:
    """Whether arithmetic, or a table of the mantissa, is more precise than interpolation."""
    return node.target in _EXACT or dtype_of(node) == torch.bool


def result_of(node: Node, values: Callable[[Node], Tensor]) -> Tensor:
    """Returns the results of an elementwise function: float64, or bool.

    Args:
        node: the call.
        values: operand -> its elements, in one dimension.
    """
    dtype, target = dtype_of(node), cast(Any, node.target)

    def converted(operand: Node) -> Tensor:
        found = values(operand)
        if dtype_of(operand) == torch.bool:
            return found.to(torch.bool)
        # Comparisons are those of eager mode, also where values are almost equal.
        return found.to(torch.float32) if dtype == torch.bool and found.is_floating_point() else found

    args: Any = map_arg(node.args, converted)
    kwargs: Any = map_arg(_without_dtype(node.kwargs), converted)
    result = args[0] if target is aten._to_copy.default else target(*args, **kwargs)
    return cast(Tensor, result.to(torch.bool if dtype == torch.bool else torch.float64))


def function_of(
    conversion: Conversion, value: Quantity, node: Node, function: Callable[[Tensor], Tensor]
) -> Quantity:
    """Returns an elementwise function."""
    if isinstance(value, Fixed):
        return Fixed(function(value.values.to(torch.float64)))
    if isinstance(value, TableFunction):
        return TableFunction(value.source, function(value.values))
    narrow = conversion.narrow(value, node)
    return TableFunction(replace(narrow, low=-math.inf, high=math.inf), function(narrow.values))


def _unary(conversion: Conversion, node: Node) -> Quantity:
    """Converts a function of one value that is not quantized."""
    operand = node.args[0]
    value = conversion.of(operand)
    target: Any = node.target
    if any(each is not operand for each in node.all_input_nodes):
        raise UnsupportedError("a function of several values")
    if target in _JUMPS and not isinstance(value, (Fixed, TableFunction)):
        raise UnsupportedError("a function with a jump, of a value that is not quantized")
    assert isinstance(operand, Node)

    def function(x: Tensor) -> Tensor:
        args, kwargs = map_arg((node.args, _without_dtype(node.kwargs)), lambda _: x)
        result: Tensor = target(*args, **kwargs)
        return result

    return function_of(conversion, value, operand, function)


def _without_dtype(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "dtype"}


def unary(node: Node) -> Convert | None:
    """Returns the conversion of other functions."""
    target: Any = node.target
    value = node.meta["val"]
    is_function = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    return _unary if is_function and isinstance(value, Tensor) and value.is_floating_point() else None
