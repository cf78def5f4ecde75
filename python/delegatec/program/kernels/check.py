# SPDX-License-Identifier: Apache-2.0
"""Finds calls without a kernel in the runtime, before emission."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.diagnostics import Diagnostic
from delegatec.edge.app_kernels import is_custom
from delegatec.edge.control_flow import FORMS
from delegatec.edge.dim_orders import REORDERS
from delegatec.edge.handles import Origin, describe_operator
from delegatec.edge.kernels import KERNELS
from delegatec.edge.out_variants import out_variant
from delegatec.edge.program import EdgeProgram
from delegatec.edge.unsupported import DELEGATES_ONLY, UNSUPPORTED
from delegatec.program.kernels.limits import LARGEST_SIZE, LIMITS, MAX_RANK
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.program.symbolic import PRIMITIVES


def check_kernels(program: EdgeProgram) -> list[Diagnostic]:
    """Returns a diagnostic per operator without a kernel, and per value of an unknown dtype.

    Args:
        program: a method; its bodies are checked, too.
    """
    nodes = (node for each in program.walk() for node in each.graph.nodes)
    return [problem for node in nodes for problem in _check(node, program.origins)]


def _check(node: Node, origins: Mapping[int, Origin]) -> Iterator[Diagnostic]:
    is_operator = node.op == "call_function" and node.target not in _NO_OPERATORS
    if is_operator and str(node.target).startswith(_AUTO_FUNCTIONALIZED):
        yield Diagnostic(
            "DC201",
            f"{node.args[0]} writes to its arguments, and has no kernel in the runtime",
            location=node.meta.get("source"),
            node=node.name,
            expected="custom operators that return new tensors (mutates_args=())",
            help="return the result, and copy it to the state in forward: state.copy_(operator(state, x))",
        )
    elif is_operator and isinstance(node.target, HigherOrderOperator):
        yield Diagnostic(
            "DC206",
            f"{node.target} is control flow that programs do not support",
            location=node.meta.get("source"),
            node=node.name,
            expected="torch.cond, and map, scan and while_loop of torch._higher_order_ops",
            help="write it with one of these, or without control flow",
        )
    elif is_operator and node.target not in PRIMITIVES and out_variant(node.target) is None:
        yield Diagnostic(
            "DC201",
            f"{describe_operator(node, origins)} has no kernel in the runtime",
            location=node.meta.get("source"),
            node=node.name,
            expected=_closest(node),
            help=_OF_THE_APP if is_custom(node.target) else _SUPPORTED,
        )
    target: Any = node.target
    limit = LIMITS.get(target)
    if limit is not None and not limit.holds(node):
        yield Diagnostic(
            "DC201",
            f"{describe_operator(node, origins)} has no kernel in the runtime for these arguments",
            location=node.meta.get("source"),
            node=node.name,
            expected=limit.expected,
            help=limit.help,
        )
    val = node.meta.get("val")
    for item in val if isinstance(val, (tuple, list)) else (val,):
        if isinstance(item, torch.Tensor) and item.dtype not in SCALAR_TYPES:
            yield Diagnostic(
                "DC202",
                f"{node.name} has dtype {item.dtype}",
                location=node.meta.get("source"),
                node=node.name,
                expected="one of " + ", ".join(str(dtype).removeprefix("torch.") for dtype in SCALAR_TYPES),
                help="convert it",
            )
        if isinstance(item, torch.Tensor) and any(type(s) is int and s > LARGEST_SIZE for s in item.shape):
            yield Diagnostic(
                "DC216",
                f"{node.name} has the shape {list(item.shape)}",
                location=node.meta.get("source"),
                node=node.name,
                expected=f"at most {LARGEST_SIZE} elements in each dimension",
                help="compute it in parts",
            )
        if isinstance(item, torch.Tensor) and item.dim() > MAX_RANK:
            yield Diagnostic(
                "DC215",
                f"{node.name} has {item.dim()} dimensions",
                location=node.meta.get("source"),
                node=node.name,
                expected=f"at most {MAX_RANK} dimensions",
                help="reshape it to fewer",
            )


# How torch.export wraps operators that write to their arguments.
_AUTO_FUNCTIONALIZED: Final = "auto_functionalized"
_SUPPORTED: Final = "write it with supported operators, or delegate it to a backend that supports it"
_OF_THE_APP: Final = "if the app registers a kernel for it, name it: see docs/custom_kernels.md"
_NO_OPERATORS: Final = frozenset({operator.getitem, call_delegate, REORDERS, *FORMS})


def _closest(node: Node) -> str:
    """Returns the closest supported operators."""
    if not isinstance(node.target, OpOverload):
        return "an operator of torch.ops.aten"
    name = node.target._opname
    if is_custom(node.target):
        return f"a kernel of the app, such as {node.target.namespace}::{name}.out"
    for replacements in (UNSUPPORTED, DELEGATES_ONLY):
        if name in replacements:
            return replacements[name]
    same = sorted(kernel for kernel in KERNELS if kernel.startswith(f"aten::{name}."))
    if same:
        return f"a call that one of its kernels supports: {', '.join(same)}"
    names = sorted(
        {kernel.removeprefix("aten::").split(".")[0] for kernel in KERNELS if kernel.startswith("aten::")}
    )
    near = get_close_matches(name, names, n=3, cutoff=0.7)
    return (
        f"an operator with a kernel, such as aten.{', aten.'.join(near)}"
        if near
        else "an operator with a kernel"
    )
