# SPDX-License-Identifier: Apache-2.0
"""Calls of a backend's members. What a plug-in raises, or returns wrongly, is reported as its fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch._ops import OpOverload

from delegatec.delegation.backend import Backend
from delegatec.delegation.faults import blamed_on, wrong_result

_Result = TypeVar("_Result")


def preserved_operators(backend: Backend) -> frozenset[OpOverload]:
    """See `Backend.preserved_operators`."""
    return _ask(
        backend,
        "preserved_operators",
        lambda: frozenset(backend.preserved_operators()),
        lambda found: all(isinstance(operator, OpOverload) for operator in found),
        "a set of overloads of operators, such as torch.ops.aten.silu.default",
    )


def _ask(
    backend: Backend,
    member: str,
    call: Callable[[], _Result],
    is_valid: Callable[[_Result], bool],
    expected: str,
) -> _Result:
    """Returns the result of a call of a backend.

    Raises:
        DelegatecError: DC410, the plug-in raises something else than a DelegatecError; DC411, the result is not
            valid.
    """
    what = f"{member} of backend {backend.name}"
    with blamed_on(backend, what):
        result = call()
    if not is_valid(result):
        raise wrong_result(what, result, expected)
    return result
