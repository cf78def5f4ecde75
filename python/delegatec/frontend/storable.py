# SPDX-License-Identifier: Apache-2.0
"""Checks that the reader of a `.pt2` accepts the calls, sizes and values of a program: torch accepts more."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import torch
from torch._export.serde.serialize import _print_sympy
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, SymBoolArgument
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from delegatec.delegation import call_delegate
from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.edge.source import location_of
from delegatec.frontend.plain_values import unstorable_constant
from delegatec.frontend.pt2.expressions import parse_expression
from delegatec.frontend.pt2.fields import MalformedError
from delegatec.frontend.pt2.targets import HIGHER_ORDER, is_symbolic, target_of

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Its own check names the lowered program.
_CHECKED: Final = frozenset({operator.getitem, call_delegate})


def storable_problems(program: ExportedProgram, where: SourceLocation | None) -> Iterator[Diagnostic]:
    """Returns a problem for each call, size and result that a `.pt2` cannot store.

    Args:
        program: with canonical metadata; unused values that are not on the CPU are erased.
        where: the line that created the Model.
    """
    seen: set[str] = set()
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        _erase_unused(module)
        for node in module.graph.nodes:
            problem = partial(
                Diagnostic,
                code="DC119",
                location=location_of(node.meta.get("stack_trace")) or where,
                node=node.name,
            )
            if node.op == "call_function" and (reason := _refused(node.target)):
                yield problem(
                    message=f"a .pt2 cannot store the call of {_name(node.target)}: {reason}",
                    expected="operators of torch, and control flow of cond, map, scan and while_loop",
                    help="rewrite this line with other operators",
                )
            for value in pytree.tree_leaves(node.meta.get("val")):
                if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                    yield problem(
                        message=f"{_name(node.target)} returns a tensor on {value.device.type}",
                        expected="tensors on cpu: backends choose devices when the program runs",
                        help="create tensors with device=x.device",
                    )
                for written in _expressions(value):
                    if written not in seen and (reason := _unread(written)):
                        yield problem(
                            message=f"{_name(node.target)} has a size that a .pt2 cannot store: {reason}",
                            expected="sizes that are sums, products, quotients and constant powers of others",
                            help="make the dimension static, or compute the value with tensors",
                        )
                    seen.add(written)
    yield from _outputs(program, where)


def _outputs(program: ExportedProgram, where: SourceLocation | None) -> Iterator[Diagnostic]:
    for index, spec in enumerate(program.graph_signature.output_specs):
        problem = partial(Diagnostic, code="DC119", location=where)
        if isinstance(spec.arg, SymBoolArgument):
            yield problem(
                message=f"output {index} is a condition of sizes",
                expected="tensors, Python scalars, None, and containers of these",
                help="return int(condition), or the sizes themselves",
            )
        value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else None
        if not isinstance(value, str) and (wanted := unstorable_constant(value)):
            yield problem(message=f"output {index} is {value!r}", expected=wanted, help="return a tensor")


def _erase_unused(module: GraphModule) -> None:
    """Erases tensors on other devices of which only the shapes were read."""
    for node in reversed(module.graph.nodes):
        value = node.meta.get("val")
        is_call = isinstance(node.target, OpOverload) and not node.target._schema.is_mutable
        if is_call and not node.users and isinstance(value, torch.Tensor) and value.device.type != "cpu":
            module.graph.erase_node(node)


def _refused(target: Any) -> str:
    """Returns why the reader refuses a call; "" if it does not."""
    if is_symbolic(target) or target in _CHECKED:
        return ""
    if not isinstance(target, (OpOverload, HigherOrderOperator)):
        return "it is not an operator"
    if isinstance(target, HigherOrderOperator):
        return "" if target in HIGHER_ORDER else "the compiler does not support it"
    try:
        target_of(f"torch.ops.{target}")
    except MalformedError as error:
        return str(error)
    return ""


def _name(target: Any) -> str:
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target._name}"
    return str(target) if isinstance(target, (OpOverload, str)) else getattr(target, "__name__", str(target))


def _expressions(value: Any) -> Iterator[str]:
    sizes: Iterable[Any] = (value,)
    if isinstance(value, torch.Tensor):
        sizes = (*value.shape, *value.stride()) if value.layout is torch.strided else value.shape
    for size in sizes:
        if isinstance(size, _SYMBOLIC):
            yield _print_sympy(size)


def _unread(written: str) -> str:
    try:
        parse_expression(written)
    except MalformedError as error:
        return str(error)
    return ""
