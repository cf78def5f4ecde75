# SPDX-License-Identifier: Apache-2.0
"""`delegatec.to_backend`: `delegation.lowering.to_backend` with the built-in backends by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from delegatec.backends import builtin_backends
from delegatec.delegation import (
    BackendRegistry,
    CompileSpec,
    Delegated,
    LoweredProgram,
    Partitioners,
)
from delegatec.delegation import to_backend as to_registered_backend
from delegatec.edge.program import EdgeProgram


@overload
def to_backend(
    backend_id: str,
    program: EdgeProgram,
    compile_specs: Sequence[CompileSpec] = ...,
    /,
    *,
    registry: BackendRegistry | None = ...,
) -> LoweredProgram: ...


@overload
def to_backend(
    program: EdgeProgram, partitioners: Partitioners, /, *, registry: BackendRegistry | None = ...
) -> Delegated: ...


@overload
def to_backend(
    programs: Mapping[str, EdgeProgram],
    partitioners: Partitioners | Mapping[str, Partitioners],
    /,
    *,
    registry: BackendRegistry | None = ...,
) -> dict[str, Delegated]: ...


def to_backend(*args: Any, registry: BackendRegistry | None = None) -> Any:
    """Lowers programs to delegates, in one of three forms; see `delegatec.delegation.lowering.to_backend`.

    Args:
        *args: a backend's id, a program and compile specs; or a program and partitioners; or the programs of
            several methods and partitioners.
        registry: finds backends by their id; the built-in ones by default.

    Returns:
        The lowered program; or the given program with a report on its nodes; or that for each method.

    Raises:
        DelegatecError: DC401, DC404, DC405, DC410, DC411, DC413, DC415, and errors of the backend: all
            problems of all methods.
    """
    return to_registered_backend(*args, registry=builtin_backends() if registry is None else registry)
