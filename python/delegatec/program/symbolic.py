# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes in a program: arithmetic at run time, and bounds for memory planning."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import upper_bound

EQUAL: Final = ("executorch_prim::eq", "Scalar")
NOT: Final = ("executorch_prim::sym_not", "Scalar")

# Functions on symbolic integers -> the runtime's primitive, as (name, overload).
PRIMITIVES: Final[dict[Any, tuple[str, str]]] = {
    math.ceil: ("executorch_prim::ceil", "Scalar"),
    math.trunc: ("executorch_prim::trunc", "Scalar"),
    operator.add: ("executorch_prim::add", "Scalar"),
    operator.eq: EQUAL,
    operator.floordiv: ("executorch_prim::floordiv", "Scalar"),
    operator.ge: ("executorch_prim::ge", "Scalar"),
    operator.gt: ("executorch_prim::gt", "Scalar"),
    operator.le: ("executorch_prim::le", "Scalar"),
    operator.lt: ("executorch_prim::lt", "Scalar"),
    operator.mod: ("executorch_prim::mod", "Scalar"),
    operator.mul: ("executorch_prim::mul", "Scalar"),
    operator.ne: EQUAL,  # the negation of EQUAL
    operator.neg: ("executorch_prim::neg", "Scalar"),
    operator.sub: ("executorch_prim::sub", "Scalar"),
    operator.truediv: ("executorch_prim::truediv", "Scalar"),
    torch.ops.aten._local_scalar_dense.default: ("aten::_local_scalar_dense", ""),
    torch.ops.aten.sym_size.int: ("aten::sym_size", "int"),
    torch.sym_float: ("executorch_prim::sym_float", "Scalar"),
    round: ("executorch_prim::round", "Scalar"),
    torch.sym_int: ("executorch_prim::sym_int", "Scalar"),
    torch.sym_ite: ("executorch_prim::sym_ite", "Scalar"),
    torch.sym_max: ("executorch_prim::sym_max", "Scalar"),
    torch.sym_min: ("executorch_prim::sym_min", "Scalar"),
    torch.sym_not: NOT,
    torch.ops.aten.sym_numel.default: ("aten::sym_numel", ""),
}


def is_symbolic(value: Any) -> bool:
    """Whether a value is a scalar that is known only at run time."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def bounded_sizes(program: EdgeProgram, val: torch.Tensor) -> tuple[int, ...]:
    """Returns the sizes of a tensor, at their upper bounds."""
    bounds = [upper_bound(program, size) for size in val.shape]
    assert None not in bounds, "check_bounds missed an unbounded dimension"
    return tuple(bound for bound in bounds if bound is not None)


def check_bounds(program: EdgeProgram) -> list[Diagnostic]:
    """Finds unbounded dimensions and dynamic scalars in a program and its bodies.

    Returns:
        DC203 for each symbol without an upper bound, at the first node that has it; DC210 for each input that
        is a dynamic scalar: the runtime (1.4.1, method.cpp) accepts only the value in the program.
    """
    found: dict[str, Node] = {}
    known: set[Any] = set()
    for node in (node for each in program.walk() for node in each.graph.nodes):
        val = node.meta.get("val")
        for item in val if isinstance(val, (tuple, list)) else (val,):
            for size in item.shape if isinstance(item, torch.Tensor) else ():
                if isinstance(size, torch.SymInt) and upper_bound(program, size) is None:
                    symbols = size.node.expr.free_symbols
                    # do not report sizes that depend on a reported one
                    if not symbols <= known:
                        known |= symbols
                        found[str(size)] = node
    scalars = [node for node in program.user_inputs() if is_symbolic(node.meta["val"])]
    return [
        Diagnostic(
            "DC210",
            f"input {node.name} is a dynamic scalar",
            node=node.name,
            expected="scalars that are the same in every call, or tensors",
            help=f"pass a 0-d tensor and call {node.name}.item() where its value is used",
        )
        for node in scalars
    ] + [
        Diagnostic(
            "DC203",
            f"dimension {symbol} of {node.name} has no upper bound",
            location=node.meta.get("source"),
            node=node.name,
            expected="an upper bound, to plan memory by",
            help=_bound_help(symbol, node),
        )
        for symbol, node in found.items()
    ]


def _bound_help(symbol: str, node: Node) -> str:
    """Returns how to bound a symbol of a size; torch names those that depend on data u0, u1, and so on."""
    if not symbol.startswith("u"):
        return "declare it with a bound: torch.export.Dim(name, min=1, max=...)"
    if "repeat_interleave" in str(node.target):
        return "pass the number of rows of the result: torch.repeat_interleave(x, repeats, output_size=...)"
    return "bound the value that it depends on: n = count.item(); torch._check(n <= 64)"
