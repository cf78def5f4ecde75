# SPDX-License-Identifier: Apache-2.0
"""Sizes as values of a graph: the runtime recomputes them if an input has another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import sympy
import torch
from delegatec_schemas import vulkan_graph as schema
from torch.utils._sympy import functions as symbolic

from delegatec.edge.symbols import multiple_of

_ARITHMETIC: Final[dict[Any, str]] = {
    sympy.Add: "add",
    sympy.Mul: "mul",
    symbolic.FloorDiv: "floordiv",
    symbolic.CleanDiv: "floordiv",
}
"""Functions of sympy, and the runtime's scalar operators."""


def is_computable(size: Any) -> bool:
    """Whether the runtime has the functions that compute a size from others."""
    return not isinstance(size, torch.SymInt) or _is_computable(size.node.expr)


def _is_computable(expression: Any) -> bool:
    if expression.is_Integer or expression.is_Symbol:
        return True
    if expression.func is sympy.Pow and expression.args[1].is_Integer and expression.args[1] > 0:
        return _is_computable(expression.args[0])
    return expression.func in _ARITHMETIC and all(map(_is_computable, expression.args))


def _linear(size: Any, symbol: Any) -> tuple[int, int] | None:
    """Returns factor and rest of a size that is linear and increasing in a symbol, else None."""
    found = multiple_of(size, symbol)
    return found if found is not None and found[0] > 0 else None


class Sizes:
    """The sizes of a graph, each computed once.

    Args:
        add: adds a value to the graph, and returns its id.
        call: appends a call.
        tensors: returns the tensors so far, and their ids.
    """

    def __init__(
        self,
        add: Callable[[int, Any], int],
        call: Callable[..., None],
        tensors: Callable[[], Iterable[tuple[torch.Tensor, int]]],
    ) -> None:
        self._add = add
        self._call = call
        self._tensors = tensors
        self._ids: dict[Any, int] = {}

    def of(self, size: torch.SymInt) -> int:
        """Returns the id of a size."""
        return self._of(size.node.expr)

    def _of(self, expression: Any) -> int:
        if expression not in self._ids:
            is_known = all(map(self._has, expression.free_symbols))
            found = None if is_known else self._multiple(expression)
            self._ids[expression] = self._create(expression) if found is None else found
        return self._ids[expression]

    def _create(self, expression: Any) -> int:
        if expression.is_Integer:
            return self._add(schema.Content.Int, schema.IntT(int(expression)))
        if expression.is_Symbol:
            return self._symbol(expression)
        if expression.func is sympy.Pow:
            return self._folded("mul", [expression.args[0]] * int(expression.args[1]))
        return self._folded(_ARITHMETIC[expression.func], expression.args)

    def _folded(self, name: str, operands: Iterable[Any]) -> int:
        result, *rest = (self._of(each) for each in operands)
        for operand in rest:
            result = self._apply(name, result, operand)
        return result

    def _known(self) -> Iterator[tuple[int, int, Any]]:
        """Yields the id, the dimension and the expression of each dynamic size."""
        for tensor, id in self._tensors():
            for dim, size in enumerate(tensor.shape):
                if isinstance(size, torch.SymInt):
                    yield id, dim, size.node.expr

    def _has(self, symbol: Any) -> bool:
        """Whether `_symbol` can compute a symbol."""
        return symbol in self._ids or any(_linear(size, symbol) for _, _, size in self._known())

    def _symbol(self, symbol: Any) -> int:
        """Computes a symbol from a size that is linear in it."""
        for id, dim, size in self._known():
            found = _linear(size, symbol)
            if found is not None:
                factor, rest = found
                value = self._apply("sym_size.int", id, self._integer(dim))
                value = self._apply("sub", value, self._integer(rest)) if rest else value
                return value if factor == 1 else self._apply("floordiv", value, self._integer(factor))
        raise AssertionError(f"no tensor of the delegate has the size {symbol}")

    def _multiple(self, expression: Any) -> int | None:
        """Computes a size as a multiple of another one; None if there is none."""
        for id, dim, size in self._known():
            found = multiple_of(expression, size)
            if found is not None:
                factor, rest = found
                value = self._apply("sym_size.int", id, self._integer(dim))
                value = value if factor == 1 else self._apply("mul", value, self._integer(factor))
                return self._apply("add", value, self._integer(rest)) if rest else value
        return None

    def _integer(self, value: int) -> int:
        return self._of(sympy.Integer(value))

    def _apply(self, name: str, *operands: int) -> int:
        # the runtime sets the value when it builds the graph, with the largest sizes of the tensors
        result = self._add(schema.Content.SymInt, schema.SymIntT(0))
        self._call(name, *operands, result)
        return result
