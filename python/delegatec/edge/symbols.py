# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes as nodes: what a rule reads off a shape must be computed in the graph to be an argument."""

from __future__ import annotations

import operator
from typing import Any, Final

import sympy
import torch
from torch.fx import Node
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.value_ranges import bound_sympy

from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_BINARY: Final[dict[Any, Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    FloorDiv: operator.floordiv,
    Mod: operator.mod,
    PythonMod: operator.mod,
    Max: torch.sym_max,
    Min: torch.sym_min,
}


class UnknownSizeError(Exception):
    """A symbolic size that no input has, such as one that depends on data."""


def sizes_key(value: Any) -> tuple[int | str, ...]:
    """Sizes in a form whose equality decides nothing about a symbol: `s0 == 4` is never asked.

    Args:
        value: a tensor, or a sequence of sizes.
    """
    sizes = value.shape if isinstance(value, torch.Tensor) else value
    return tuple(str(size.node.expr) if isinstance(size, torch.SymInt) else size for size in sizes)


def upper_bound(program: EdgeProgram, size: int | torch.SymInt) -> int | None:
    """The largest value of a size; None where it has none."""
    if not isinstance(size, torch.SymInt):
        return size
    bound = bound_sympy(size.node.expr, program.range_constraints).upper
    return int(bound) if bound.is_finite and bound < 2**31 else None


class SizeNodes:
    """Creates, once each, the nodes that compute symbolic sizes, in front of everything else."""

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self._nodes: dict[str, Any] = {}

    def node_of(self, size: torch.SymInt) -> Any:
        """The node that computes `size`, or a number where it is one.

        Raises:
            UnknownSizeError: if it does not follow from the shapes of the inputs.
        """
        return self._of(size.node.expr, size)

    def _of(self, expression: Any, like: torch.SymInt) -> Any:
        if expression.is_Integer:
            return int(expression)
        key = str(expression)
        if key not in self._nodes:
            self._nodes[key] = self._create(expression, like)
        return self._nodes[key]

    def _create(self, expression: Any, like: torch.SymInt) -> Node:
        if expression.is_Symbol:
            return self._create_symbol(expression)
        function, operands = _BINARY.get(expression.func), expression.args
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            function, operands = operator.mul, (expression.base,) * int(expression.exp)
        if function is None:
            raise UnknownSizeError(str(expression))
        result, *rest = (self._of(operand, like) for operand in operands)
        for operand in rest:
            result = self._apply(function, result, operand)
        assert isinstance(result, Node)
        return result

    def _create_symbol(self, symbol: Any) -> Node:
        """Reads a symbol off an input: a size that is the symbol, a multiple of it, or that plus a number."""
        for placeholder in self._program.user_inputs():
            val = placeholder.meta["val"]
            if isinstance(val, torch.SymInt) and val.node.expr == symbol:
                return placeholder
            for dim, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                if not isinstance(size, torch.SymInt):
                    continue
                factor = size.node.expr.coeff(symbol)
                rest = size.node.expr - factor * symbol
                if factor.is_Integer and factor > 0 and rest.is_Integer:
                    node = self._insert(aten.sym_size.int, (placeholder, dim), size)
                    if rest != 0:
                        node = self._apply(operator.sub, node, int(rest))
                    return node if factor == 1 else self._apply(operator.floordiv, node, int(factor))
        raise UnknownSizeError(str(symbol))

    def _apply(self, function: Any, *operands: Any) -> Node:
        values = [item.meta["val"] if isinstance(item, Node) else item for item in operands]
        return self._insert(function, operands, function(*values))

    def _insert(self, target: Any, args: tuple[Any, ...], val: Any) -> Node:
        graph = self._program.graph
        known = [node for node in self._nodes.values() if isinstance(node, Node)]
        anchor = known[-1] if known else self._program.placeholders()[-1]
        made = [node for node in args if isinstance(node, Node) and node.op == "call_function"]
        order = {node: position for position, node in enumerate(graph.nodes)}
        anchor = max([anchor, *made], key=order.__getitem__)
        with graph.inserting_after(anchor):
            node = graph.call_function(target, args)
        node.meta["val"] = val
        node.meta["source"] = None
        node.meta["debug_handle"] = self._program.placeholders()[-1].meta.get("debug_handle", 1)
        return node
