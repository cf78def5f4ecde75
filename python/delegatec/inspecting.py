# SPDX-License-Identifier: Apache-2.0
"""`delegatec.inspect`: the contents of a program file."""

from __future__ import annotations

from pathlib import Path

from delegatec.backends import builtin_backends
from delegatec.delegation import BackendRegistry
from delegatec.diagnostics.arguments import check_types
from delegatec.report.inspection import ProgramContents, inspect_program


def inspect(program: str | Path, *, registry: BackendRegistry | None = None) -> ProgramContents:
    """Reads a `.pte` of any compiler: its methods, delegates, kernels, arenas, constants and parts.

    Nothing in the file is run.

    Args:
        program: the `.pte`.
        registry: the backends, which know what their delegates take of an app's allocators; the built-in
            ones by default.

    Raises:
        DelegatecError: DC415 for arguments of wrong types; DC35x if the file cannot be read; DC410 and DC411
            for a faulty plug-in.
        OSError: it cannot be opened.
    """
    check_types(
        "delegatec.inspect",
        {
            "program": (program, str | Path, "a path"),
            "registry": (registry, BackendRegistry | None, "a BackendRegistry"),
        },
    )
    return inspect_program(program, builtin_backends() if registry is None else registry)
