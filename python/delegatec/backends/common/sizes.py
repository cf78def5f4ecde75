# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes as values of a delegate's graph, which its runtime computes in each run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import sympy
import torch
from torch.utils._sympy import functions as symbolic

from delegatec.edge.symbols import multiple_of

SizeT = TypeVar("SizeT")
TensorT = TypeVar("TensorT")

ADD: Final = "add"
MULTIPLY: Final = "multiply"
SUBTRACT: Final = "subtract"
DIVIDE: Final = "divide"
"""Rounds down."""

ARITHMETIC: Final[Mapping[Any, str]] = {
    sympy.Add: ADD,
    sympy.Mul: MULTIPLY,
    symbolic.FloorDiv: DIVIDE,
    symbolic.CleanDiv: DIVIDE,
}
"""Functions of sympy, and those of a graph that compute them."""


def is_computable(size: Any) -> bool:
    """Whether the functions of a graph compute a size from others."""
    return not isinstance(size, torch.SymInt) or _is_computable(size.node.expr)


def _is_computable(expression: Any) -> bool:
    if expression.is_Integer or expression.is_Symbol:
        return True
    if expression.func is sympy.Pow and expression.args[1].is_Integer and expression.args[1] > 0:
        return _is_computable(expression.args[0])
    return expression.func in ARITHMETIC and all(map(_is_computable, expression.args))


def _linear(size: Any, symbol: Any) -> tuple[int, int] | None:
    """Returns factor and rest of a size that is linear and increasing in a symbol, else None."""
    found = multiple_of(size, symbol)
    return found if found is not None and found[0] > 0 else None


class SizeGraph(ABC, Generic[SizeT, TensorT]):
    """A graph with values for integers."""

    @abstractmethod
    def literal(self, value: int) -> SizeT:
        """Returns a constant."""

    @abstractmethod
    def size_of(self, tensor: TensorT, dim: int) -> SizeT:
        """Appends an operation that returns a size of a tensor."""

    @abstractmethod
    def apply(self, function: str, first: SizeT, second: SizeT) -> SizeT:
        """Appends one of `ADD`, `MULTIPLY`, `SUBTRACT` and `DIVIDE`."""

    @abstractmethod
    def tensors(self) -> Iterable[tuple[torch.Tensor, TensorT]]:
        """Returns the tensors so far, as fake tensors and as values of the graph."""


class Sizes(Generic[SizeT, TensorT]):
    """The sizes of a graph, each computed once.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: SizeGraph[SizeT, TensorT]) -> None:
        self._graph = graph
        self._known: ChainMap[Any, SizeT] = ChainMap()

    def inner(self) -> Sizes[SizeT, TensorT]:
        """Returns the sizes of a part of the graph that may not run: those that it adds are unknown here."""
        found = Sizes(self._graph)
        found._known = self._known.new_child()
        return found

    def define(self, size: torch.SymInt, value: SizeT) -> None:
        """Sets the value of a size, such as an input."""
        self._known[size.node.expr] = value

    def of(self, size: torch.SymInt) -> SizeT:
        """Returns the value of a size."""
        return self._of(size.node.expr)

    def is_known(self, size: torch.SymInt) -> bool:
        """Whether the value of a size needs no further operation."""
        return size.node.expr in self._known

    def _of(self, expression: Any) -> SizeT:
        if expression not in self._known:
            is_known = all(map(self._has, expression.free_symbols))
            found = None if is_known else self._multiple(expression)
            self._known[expression] = self._create(expression) if found is None else found
        return self._known[expression]

    def _create(self, expression: Any) -> SizeT:
        if expression.is_Integer:
            return self._graph.literal(int(expression))
        if expression.is_Symbol:
            return self._symbol(expression)
        if expression.func is sympy.Pow:
            return self._folded(MULTIPLY, [expression.args[0]] * int(expression.args[1]))
        return self._folded(ARITHMETIC[expression.func], expression.args)

    def _folded(self, name: str, operands: Iterable[Any]) -> SizeT:
        result, *rest = (self._of(each) for each in operands)
        for operand in rest:
            result = self._graph.apply(name, result, operand)
        return result

    def _dynamic(self) -> Iterator[tuple[TensorT, int, Any]]:
        """Yields the tensor, the dimension and the expression of each dynamic size."""
        for tensor, value in self._graph.tensors():
            for dim, size in enumerate(tensor.shape):
                if isinstance(size, torch.SymInt):
                    yield value, dim, size.node.expr

    def _has(self, symbol: Any) -> bool:
        """Whether `_symbol` can compute a symbol."""
        return symbol in self._known or any(_linear(size, symbol) for _, _, size in self._dynamic())

    def _symbol(self, symbol: Any) -> SizeT:
        """Computes a symbol from a size that is linear in it."""
        for tensor, dim, size in self._dynamic():
            found = _linear(size, symbol)
            if found is not None:
                factor, rest = found
                value = self._graph.size_of(tensor, dim)
                value = self._graph.apply(SUBTRACT, value, self._literal(rest)) if rest else value
                return value if factor == 1 else self._graph.apply(DIVIDE, value, self._literal(factor))
        raise AssertionError(f"no tensor of the delegate has the size {symbol}")

    def _multiple(self, expression: Any) -> SizeT | None:
        """Computes a size as a multiple of another one; None if there is none."""
        for tensor, dim, size in self._dynamic():
            found = multiple_of(expression, size)
            if found is not None:
                factor, rest = found
                value = self._graph.size_of(tensor, dim)
                if factor != 1:
                    value = self._graph.apply(MULTIPLY, value, self._literal(factor))
                return self._graph.apply(ADD, value, self._literal(rest)) if rest else value
        return None

    def _literal(self, value: int) -> SizeT:
        return self._of(sympy.Integer(value))
