# SPDX-License-Identifier: Apache-2.0
"""Kernels that an app registers besides those of the runtime, for custom operators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

import torch
from torch._ops import OpOverload

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

_NAME: Final = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)
_OWN_NAMESPACES: Final = frozenset({"aten", "dim_order_ops", "et_copy", "executorch_prim", "prims"})
_NAMED: Final = ContextVar[frozenset[str]]("kernels of the app", default=frozenset())
# Keep the definitions of out variants alive.
_LIBRARIES: Final[dict[str, Any]] = {}


def named_kernels() -> frozenset[str]:
    """Returns the kernels that the app of this program has: names such as "dsp::window.out"."""
    return _NAMED.get()


@contextmanager
def app_kernels(names: Iterable[str]) -> Iterator[None]:
    """Declares kernels of the app, which programs may call in this scope.

    An operator without an out variant gets one: the arguments of the operator, then one for each result.

    Args:
        names: out variants of operators that are registered in this process, such as "dsp::window.out".

    Raises:
        DelegatecError: DC211, one diagnostic for each name that cannot be a kernel of an app.
    """
    problems: list[Diagnostic] = []
    found = list(dict.fromkeys(names))
    for name in found:
        try:
            _define(name)
        except DelegatecError as error:
            problems += error.diagnostics
    if problems:
        raise DelegatecError(problems)
    token = _NAMED.set(_NAMED.get() | frozenset(found))
    try:
        yield
    finally:
        _NAMED.reset(token)


def is_custom(target: object) -> bool:
    """Returns whether an operator is in a namespace that neither torch nor this compiler defines."""
    namespace = target.namespace if isinstance(target, OpOverload) else "aten"
    return namespace not in _OWN_NAMESPACES and not namespace.startswith("delegatec")


def functional_of(out: OpOverload) -> OpOverload | None:
    """Returns the operator whose results an out variant writes, or None."""
    packet = getattr(getattr(torch.ops, out.namespace), out._opname)
    overloads = [getattr(packet, name) for name in packet.overloads()]
    return next((each for each in overloads if writes_results_of(out, each)), None)


# Arguments of functional factories and conversions that their out variants derive from the output tensor.
_OF_THE_OUTPUT: Final = frozenset({"dtype", "layout", "device", "pin_memory"})


def writes_results_of(candidate: OpOverload, functional: OpOverload) -> bool:
    """Returns whether an overload is the out variant of another one."""
    inputs = [a for a in candidate._schema.arguments if not a.is_out]
    outs = [a for a in candidate._schema.arguments if a.is_out]
    returns = functional._schema.returns
    # a list of results would be one output here, but several nodes in the graph
    if not outs or len(outs) != len(returns) or any(str(a.type) != "Tensor" for a in (*outs, *returns)):
        return False
    names = {argument.name for argument in inputs}
    wanted = [a for a in functional._schema.arguments if a.name in names or a.name not in _OF_THE_OUTPUT]
    return [(a.name, str(a.type)) for a in inputs] == [(a.name, str(a.type)) for a in wanted]


def _define(name: str) -> None:
    """Finds an out variant, or defines it."""
    match = _NAME.fullmatch(name)
    if match is None:
        _refuse(
            f"{name!r} is not the name of a kernel", "NAMESPACE::OPERATOR.OVERLOAD, such as dsp::window.out"
        )
    namespace, operation, overload = match.groups()
    if namespace in _OWN_NAMESPACES:
        _refuse(f"kernel {name} would replace one of the runtime", "an operator in a namespace of your own")
    schemas = {
        schema.overload_name: schema
        for schema in torch._C._jit_get_schemas_for_operator(f"{namespace}::{operation}")
    }
    if not schemas:
        _refuse(
            f"kernel {name}: operator {namespace}::{operation} is not registered",
            "an operator that a Python module registers with torch.library",
            _help(namespace, operation),
        )
    if overload in schemas:
        found: Any = getattr(getattr(getattr(torch.ops, namespace), operation), overload)
        if functional_of(found) is None:
            _refuse(
                f"kernel {name} is not the out variant of an operator: {found._schema}",
                "the arguments of the operator, then `Tensor(a!) out` for each of its results",
            )
        return
    functional = schemas.get("")
    if functional is None:
        _refuse(
            f"kernel {name}: {namespace}::{operation} has no overload {overload!r}",
            " or ".join(sorted(schemas)),
        )
    _define_out(namespace, operation, overload, functional)


def _define_out(namespace: str, operation: str, overload: str, functional: Any) -> None:
    returns = [str(each.type) for each in functional.returns]
    writes = [each.name for each in functional.arguments if each.alias_info and each.alias_info.is_write]
    if not returns or set(returns) != {"Tensor"} or writes:
        _refuse(
            f"operator {functional} has no out variant",
            "tensors as results, and arguments that it only reads",
        )
    arguments, _, _ = str(functional).partition("(")[2].rpartition(") ->")
    names = ["out"] if len(returns) == 1 else [f"out{position}" for position in range(len(returns))]
    marks = [f"Tensor({chr(ord('a') + position)}!)" for position in range(len(returns))]
    outs = ", ".join(f"{mark} {name}" for mark, name in zip(marks, names, strict=True))
    separator = "" if not arguments else ", " if "*, " in arguments else ", *, "
    results = marks[0] if len(marks) == 1 else f"({', '.join(marks)})"
    if namespace not in _LIBRARIES:
        _LIBRARIES[namespace] = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    _LIBRARIES[namespace].define(
        f"{operation}.{overload}({arguments}{separator or '*, '}{outs}) -> {results}"
    )


def _help(namespace: str, operation: str) -> str:
    known = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    near = did_you_mean(operation, {rest.partition(".")[0] for owner, _, rest in known if owner == namespace})
    return near or "import the module that registers it: `module` of app_kernels, or --kernel-module"


def _refuse(message: str, expected: str, help: str = "") -> NoReturn:
    raise DelegatecError([Diagnostic("DC211", message, expected=expected, help=help)])
