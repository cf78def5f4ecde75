# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: keys, bounds and comparisons without guards."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final

import sympy
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions as symbolic
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Functions on scalars that the runtime supports; `program/symbolic.py` has their primitives.
COMPUTED: Final = frozenset(
    {
        *(operator.add, operator.sub, operator.mul, operator.neg, operator.truediv),
        *(operator.floordiv, operator.mod, torch.sym_max, torch.sym_min),
        *(operator.eq, operator.ge, operator.gt, operator.le, operator.lt, operator.ne),
        *(torch.sym_float, torch.sym_ite, torch.sym_not, math.ceil, math.trunc, round),
    }
)


class UnknownSizeError(Exception):
    """A symbolic size that no value of the program determines, or that needs an unsupported function."""


def sizes_key(value: Any) -> tuple[int | str, ...]:
    """Returns a comparable form of sizes that adds no guards: `s0 == 4` is never evaluated.

    Args:
        value: a tensor, or a sequence of sizes.
    """
    sizes = value.shape if isinstance(value, torch.Tensor) else value
    return tuple(str(size.node.expr) if isinstance(size, torch.SymInt) else size for size in sizes)


def integer_ratio(size: int | torch.SymInt, other: int | torch.SymInt) -> int | None:
    """Returns the quotient of two sizes, for all their values; None if it varies or is not an integer."""
    first, second = (
        each.node.expr if isinstance(each, torch.SymInt) else sympy.Integer(each) for each in (size, other)
    )
    ratio = sympy.cancel(first / second) if second != 0 else None
    return int(ratio) if isinstance(ratio, sympy.Integer) else None


def multiple_of(expression: Any, size: Any) -> tuple[int, int] | None:
    """Returns factor and rest if `expression` is a factor times `size` plus a rest, both integers, else None.

    Args:
        expression: of sympy.
        size: the same, not constant.
    """
    expression, size = sympy.expand(expression), sympy.expand(size)
    terms = {term: factor for term, factor in size.as_coefficients_dict().items() if term != 1}
    term, known = next(iter(terms.items()))
    factor = expression.as_coefficients_dict()[term] / known
    rest = sympy.expand(expression - factor * size)
    is_multiple = factor.is_Integer and factor != 0 and rest.is_Integer
    return (int(factor), int(rest)) if is_multiple else None


def bounds(size: torch.SymInt, ranges: Mapping[Any, Any]) -> Any:
    """Returns the range of a size, as `ValueRanges` of torch.

    Args:
        size: with any symbols.
        ranges: `range_constraints` of an exported program.
    """
    # torch may know more about data-dependent sizes, such as an upper bound for nonzero
    known = size.node.shape_env.var_to_range
    expression = _divided(size.node.expr)
    traced = {symbol: known[symbol] for symbol in expression.free_symbols if symbol in known}
    return bound_sympy(expression, {**traced, **ranges})


def upper_bound(program: EdgeProgram, size: int | torch.SymInt) -> int | None:
    """Returns the upper bound of a size; None if unbounded."""
    if not isinstance(size, torch.SymInt):
        return size
    upper = bounds(size, program.range_constraints).upper
    return int(upper) if upper.is_finite and upper < 2**31 else None


def largest(size: int | torch.SymInt) -> int | None:
    """Returns the upper bound of a size; None if it has none."""
    if not isinstance(size, torch.SymInt):
        return size
    upper = _range(size.node.expr, _ranges(size)).upper
    return int(upper) if upper.is_finite and upper < 2**31 else None


def _ranges(size: torch.SymInt) -> frozenset[tuple[Any, Any]]:
    """Returns the range of each symbol of a size."""
    known = size.node.shape_env.var_to_range
    return frozenset((symbol, known[symbol]) for symbol in size.node.expr.free_symbols if symbol in known)


@functools.lru_cache(4096)
def _range(expression: Any, ranges: frozenset[tuple[Any, Any]]) -> Any:
    """Returns the range of an expression, of those of its symbols: programs have few different sizes."""
    return bound_sympy(_divided(expression), dict(ranges))


def _divided(expression: Any) -> Any:
    """Replaces quotients that are integers for all sizes: torch finds no bound of `s * s // s`."""

    def divide(dividend: Any, divisor: Any) -> Any:
        quotient = sympy.cancel(dividend / divisor)
        is_integer = sympy.fraction(sympy.together(quotient))[1] == 1
        return quotient if is_integer else symbolic.FloorDiv(dividend, divisor)

    return expression.replace(symbolic.FloorDiv, divide)


def smallest(size: int | torch.SymInt) -> int:
    """Returns the lower bound of a size."""
    if not isinstance(size, torch.SymInt):
        return size
    lower = _range(size.node.expr, _ranges(size)).lower
    return int(lower) if lower.is_finite else 0


def smallest_nonempty(size: int | torch.SymInt) -> int:
    """Returns the lower bound of a size if no input is empty: delegates do not support empty inputs.

    `torch.export.Dim` starts at 0 if `min` is not given. Data-dependent sizes may be 0.
    """
    if not isinstance(size, torch.SymInt):
        return size
    is_data_dependent = size.node.shape_env.is_unbacked_symint
    ranges = frozenset(
        (symbol, known if is_data_dependent(symbol) else _nonempty(known)) for symbol, known in _ranges(size)
    )
    lower = _range(size.node.expr, ranges).lower
    return int(lower) if lower.is_finite else 0


@functools.lru_cache(4096)
def _nonempty(known: Any) -> Any:
    """Returns a range without zero."""
    return known & ValueRanges(1, int_oo)


def is_never_negative(scalar: Any) -> bool:
    """Whether a scalar is at least 0 for any values of its symbols."""
    return bool(scalar.node.expr.is_nonnegative if isinstance(scalar, torch.SymInt) else scalar >= 0)


def is_dynamic(sizes: Iterable[Any]) -> bool:
    """Whether one of several sizes is symbolic."""
    return any(isinstance(size, torch.SymInt) for size in sizes)


def same_sizes(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Whether two shapes are equal for all sizes. A comparison by `==` narrows ranges of dynamic sizes."""
    pairs = list(itertools.zip_longest(first, second))
    return all(None not in pair and statically_known_true(pair[0] == pair[1]) for pair in pairs)


def is_multiple(size: int | torch.SymInt, factor: int) -> bool:
    """Whether a size is a multiple of another for any values of its symbols."""
    remainder = size % factor if isinstance(size, int) else sympy.Mod(size.node.expr, factor)
    return bool(remainder == 0)


def is_scalar(node: Node) -> bool:
    """Whether a node computes a scalar, such as a size, and not tensors."""
    value = node.meta.get("val")
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def size_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Returns the nodes that compute the scalars among operands from sizes of tensors, in graph order."""
    found: set[Node] = set()
    pending = list(nodes)
    while pending:
        new = {source for source in pending.pop().all_input_nodes if _is_size(source)} - found
        found |= new
        pending += new
    return sorted(found)


def _is_size(node: Node) -> bool:
    targets = (aten.sym_size.int, aten.sym_numel.default)
    return is_scalar(node) and (node.target in targets or node.target in COMPUTED)
