# SPDX-License-Identifier: Apache-2.0
"""Nodes that compute symbolic sizes from the sizes of tensors."""

from __future__ import annotations

import itertools
import math
import operator
from functools import cached_property
from typing import Any, Final

import sympy
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._sympy import functions as symbolic

from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import UnknownSizeError, multiple_of

aten = torch.ops.aten

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


class SizeNodes:
    """Creates nodes that compute symbolic scalars, without duplicates, as early as possible."""

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self._before: Node | None = None
        self._measured = 0
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
        if key in self._nodes:
            return self._nodes[key]
        measured = self._measured
        for create in (self._create, self._create_multiple):
            try:
                found = create(expression)
            except UnknownSizeError:
                continue
            # what is measured is after a tensor, and other readers may be before it
            if measured == self._measured:
                self._nodes[key] = found
            return found
        return self._measure(expression)

    def _measure(self, expression: Any) -> Node:
        """Creates a node for the size of a tensor before the reader."""
        graph = self._program.graph
        before = () if self._before is None else itertools.takewhile(self._before.__ne__, graph.nodes)
        for source in before:
            val = source.meta.get("val")
            for dim, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr == expression:
                    self._measured += 1
                    with graph.inserting_after(source):
                        return self._described(graph.call_function(aten.sym_size.int, (source, dim)), size)
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
