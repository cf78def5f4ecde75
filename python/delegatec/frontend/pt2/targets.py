# SPDX-License-Identifier: Apache-2.0
"""Resolution of the names of operators, without walking attributes of arbitrary objects."""

from __future__ import annotations

import math
import operator
import re
from typing import Any, Final

import torch

# A program of a quantized model calls the operators that this registers.
import torch.ao.quantization.fx._decomposed
from torch._ops import HigherOrderOperator, OpOverload

from delegatec.frontend.pt2.fields import fail

_OPERATOR: Final = re.compile(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)

# Operators that access files or processes.
_DENIED: Final = frozenset({"aten::from_file", "aten::_print"})
_DENIED_NAMESPACES: Final = frozenset(
    {"image", "debugprims", "profiler", "inductor", "symm_mem", "c10d", "_c10d_functional"}
    | {"_c10d_functional_autograd", "c10d_functional", "_dtensor", "rpc", "aoti", "static_runtime"}
)

_SYMBOLIC: Final[dict[str, Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in (
            *("eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod"),
            *("pow", "truediv", "and_", "or_", "lshift", "rshift"),
        )
    },
    **{
        f"torch.sym_{name}": getattr(torch, f"sym_{name}")
        for name in ("not", "int", "float", "ite", "max", "min")
    },
    "torch._sym_sqrt": torch.sym_sqrt,
    "torch.sym_sqrt": torch.sym_sqrt,
    "math.trunc": math.trunc,
}
_HIGHER_ORDER_NAMED: Final[dict[str, HigherOrderOperator]] = {
    f"torch.ops.higher_order.{name}": getattr(torch.ops.higher_order, name)
    for name in (
        *("cond", "map_impl", "scan", "while_loop"),
        *("wrap_with_set_grad_enabled", "wrap_with_autocast"),
    )
}
# The higher-order operators that a program may call.
HIGHER_ORDER: Final = frozenset(_HIGHER_ORDER_NAMED.values())
# Overloads found so far; those that are not registered may be later.
_FOUND: Final[dict[str, Any]] = {**_SYMBOLIC, **_HIGHER_ORDER_NAMED}


class UnregisteredError(Exception):
    """An operator that is not registered in this process; the argument is its name."""


def is_symbolic(target: Any) -> bool:
    """Whether a target computes symbolic scalars, and has no schema."""
    return target in _SYMBOLIC.values() or target is torch.ops.aten.item.default


def target_of(name: str) -> Any:
    """Returns the operator or function of a node.

    Raises:
        MalformedError: a program must not call it.
        UnregisteredError: it is not registered.
    """
    found = _FOUND.get(name)
    if found is None:
        found = _FOUND[name] = _overload(name)
    return found


def _overload(name: str) -> OpOverload:
    match = _OPERATOR.fullmatch(name)
    if match is None:
        fail(f"{name} is not an operator that a program may call")
    namespace, operation, overload = match.groups()
    if namespace == "higher_order":
        fail(f"the compiler does not support {name}")
    if namespace in _DENIED_NAMESPACES or f"{namespace}::{operation}" in _DENIED:
        fail(f"operator {namespace}.{operation}.{overload} accesses files or processes")
    try:
        torch._C._dispatch_find_schema_or_throw(
            f"{namespace}::{operation}", "" if overload == "default" else overload
        )
    except RuntimeError as error:
        raise UnregisteredError(f"{namespace}.{operation}.{overload}") from error
    found = getattr(getattr(getattr(torch.ops, namespace), operation), overload)
    if not isinstance(found, OpOverload):
        fail(f"{name} is not an operator")
    return found
