# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes as nodes: shapes used as arguments must be computed in the graph."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import sympy
import torch
from torch._ops import OpOverload
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

_FOLDED: Final[dict[Any, Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    symbolic.Max: torch.sym_max,
    symbolic.Min: torch.sym_min,
    sympy.Max: torch.sym_max,
    sympy.Min: torch.sym_min,
}

_DIRECT: Final[dict[Any, Any]] = {
    symbolic.FloorDiv: operator.floordiv,
    symbolic.CleanDiv: operator.floordiv,
    symbolic.Mod: operator.mod,
    symbolic.IntTrueDiv: operator.truediv,
    symbolic.FloatTrueDiv: operator.truediv,
    symbolic.ToFloat: torch.sym_float,
    symbolic.CeilToInt: math.ceil,
    symbolic.TruncToInt: math.trunc,
    symbolic.RoundToInt: round,
    sympy.Eq: operator.eq,
    sympy.Ge: operator.ge,
    sympy.Gt: operator.gt,
    sympy.Le: operator.le,
    sympy.Lt: operator.lt,
    sympy.Not: torch.sym_not,
}


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


class SizeNodes:
    """Creates nodes that compute symbolic scalars, without duplicates, as early as possible."""

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self._before: Node | None = None
        self._nodes: dict[str, Any] = {}

    @cached_property
    def _last_input(self) -> Node:
        return self._program.placeholders()[-1]

    def node_of(self, size: torch.SymInt | torch.SymFloat | torch.SymBool, before: Node | None = None) -> Any:
        """Returns the node that computes a symbolic scalar, or a constant scalar itself.

        Args:
            size: the scalar.
            before: a node that reads it. Tensors before it have sizes that do not follow from those of the
                inputs: in a part of a program, for example, those after a convolution with a stride.

        Raises:
            UnknownSizeError: if it cannot be computed from values of the program.
        """
        self._before = before
        return self._of(size.node.expr)

    def _of(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        if expression.is_Float or expression.is_Rational:
            return float(expression)
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        key = str(expression)
        if key not in self._nodes:
            try:
                self._nodes[key] = self._create(expression)
            except UnknownSizeError:
                try:
                    self._nodes[key] = self._create_multiple(expression)
                except UnknownSizeError:
                    return self._measure(expression)
        return self._nodes[key]

    def _measure(self, expression: Any) -> Node:
        """Creates a node for the size of a tensor before the reader."""
        for source in self._program.graph.nodes if self._before is not None else ():
            if source is self._before:
                break
            val = source.meta.get("val")
            for dim, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr == expression:
                    with self._program.graph.inserting_after(source):
                        return self._described(
                            self._program.graph.call_function(aten.sym_size.int, (source, dim)), size
                        )
        raise UnknownSizeError(str(expression))

    def _create(self, expression: Any) -> Any:
        function, operands = expression.func, expression.args
        if expression.is_Symbol:
            return self._create_symbol(expression)
        if function in (sympy.Pow, symbolic.PowByNatural) and operands[1].is_Integer and operands[1] > 0:
            function, operands = sympy.Mul, (operands[0],) * int(operands[1])
        if function in _FOLDED:
            result, *rest = (self._of(operand) for operand in operands)
            for operand in rest:
                result = self._apply(_FOLDED[function], result, operand)
            return result
        if function in _DIRECT:
            return self._apply(_DIRECT[function], *(self._of(operand) for operand in operands))
        if function is symbolic.PythonMod:
            # The runtime's remainder has the sign of the dividend, as in C.
            dividend, divisor = (self._of(operand) for operand in operands)
            multiple = self._apply(operator.mul, self._apply(operator.floordiv, dividend, divisor), divisor)
            return self._apply(operator.sub, dividend, multiple)
        if function in (sympy.And, sympy.Or):
            result, *rest = (self._of(operand) for operand in operands)
            for operand in rest:
                result = self._combine(function is sympy.And, result, operand)
            return result
        if function is sympy.Ne:
            return self._apply(torch.sym_not, self._of(sympy.Eq(*operands)))
        if function is symbolic.FloorToInt:
            # the runtime only rounds up
            negative = self._apply(operator.neg, self._of(operands[0]))
            return self._apply(operator.neg, self._apply(math.ceil, negative))
        if function is symbolic.Where:
            return self._apply(torch.sym_ite, *(self._of(operand) for operand in operands))
        if function is sympy.Piecewise and len(operands) == 2 and operands[1].args[1] == sympy.true:
            (yes, condition), (no, _) = (operand.args for operand in operands)
            return self._apply(torch.sym_ite, *(self._of(each) for each in (condition, yes, no)))
        raise UnknownSizeError(str(expression))

    def _create_symbol(self, symbol: Any) -> Node:
        """Creates a node for a symbol from a scalar equal to it, or from a size that is linear in it.

        Inputs come first; a data-dependent symbol comes from another node.
        """
        later = (node for node in self._program.graph.nodes if node.op == "call_function")
        source: Node
        for source in (*self._program.user_inputs(), *later):
            val = source.meta.get("val")
            if isinstance(val, (torch.SymInt, torch.SymFloat)) and val.node.expr == symbol:
                return source
            for dim, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                if not isinstance(size, torch.SymInt):
                    continue
                factor = size.node.expr.coeff(symbol)
                rest = size.node.expr - factor * symbol
                if factor.is_Integer and factor > 0 and rest.is_Integer and self._makes(source, symbol):
                    node = self._insert(aten.sym_size.int, (source, dim), size)
                    if rest != 0:
                        node = self._apply(operator.sub, node, int(rest))
                    return node if factor == 1 else self._apply(operator.floordiv, node, int(factor))
        raise UnknownSizeError(str(symbol))

    def _create_multiple(self, expression: Any) -> Node:
        """Creates a node from an input's size of which the scalar is a multiple, without its symbols."""
        for source in self._program.user_inputs():
            val = source.meta.get("val")
            for dim, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                found = multiple_of(expression, size.node.expr) if isinstance(size, torch.SymInt) else None
                if found is not None:
                    node = self._insert(aten.sym_size.int, (source, dim), size)
                    node = node if found[0] == 1 else self._apply(operator.mul, node, found[0])
                    return node if found[1] == 0 else self._apply(operator.add, node, found[1])
        raise UnknownSizeError(str(expression))

    @staticmethod
    def _makes(source: Node, symbol: Any) -> bool:
        """Whether a node is an input, or the first one with a data-dependent symbol.

        A decomposition, such as that of `torch.where` to `nonzero`, does not keep the bindings.
        """
        if source.op == "placeholder" or symbol in (source.meta.get("unbacked_bindings") or {}):
            return True
        return isinstance(source.target, OpOverload) and torch.Tag.dynamic_output_shape in source.target.tags

    def _apply(self, function: Any, *operands: Any) -> Any:
        values = [item.meta["val"] if isinstance(item, Node) else item for item in operands]
        if not any(isinstance(item, Node) for item in operands):
            return function(*values)
        return self._insert(function, operands, function(*values))

    def _combine(self, both: bool, left: Node, right: Node) -> Node:
        """Computes the conjunction or disjunction of two conditions by selection, as the runtime does."""
        val = (operator.and_ if both else operator.or_)(left.meta["val"], right.meta["val"])
        return self._insert(torch.sym_ite, (left, right, False) if both else (left, True, right), val)

    def _insert(self, target: Any, args: tuple[Any, ...], val: Any) -> Node:
        graph = self._program.graph
        made = [node for node in args if isinstance(node, Node) and node.op == "call_function"]
        with graph.inserting_after(max(made, default=self._last_input)):
            return self._described(graph.call_function(target, args), val)

    def _described(self, node: Node, val: Any) -> Node:
        node.meta["val"] = val
        node.meta["source"] = None
        node.meta["debug_handle"] = self._last_input.meta.get("debug_handle", 1)
        return node
