# SPDX-License-Identifier: Apache-2.0
"""`delegatec.inspect`: the contents of a program file."""

from __future__ import annotations

from pathlib import Path

from delegatec.diagnostics.arguments import check_types
from delegatec.report.inspection import ProgramContents, inspect_program


def inspect(program: str | Path) -> ProgramContents:
    """Reads a `.pte` of any compiler: its methods, delegates, kernels, arenas, constants and parts.

    Nothing in the file is run.

    Args:
        program: the `.pte`.

    Raises:
        DelegatecError: DC415 if it is not a path; DC35x if the file cannot be read.
        OSError: it cannot be opened.
    """
    check_types("delegatec.inspect", {"program": (program, str | Path, "a path")})
    return inspect_program(program)
