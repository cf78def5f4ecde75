# SPDX-License-Identifier: Apache-2.0
"""Our way from an exported program to a `.pte`."""

from __future__ import annotations

from pathlib import Path

from torch.export import ExportedProgram

from delegatec.lowering import lower as lower_methods
from delegatec.program import write_program


def lower(exported: ExportedProgram, backend: str, path: Path) -> int:
    """Lowers a program and writes it.

    Args:
        exported: the program; it is taken over.
        backend: "portable" or "mps" (fp32).
        path: the file to write.

    Returns:
        The lower bound of planned memory, in bytes.
    """
    lowered = lower_methods({"forward": exported}, backend)
    with open(path, "wb") as file:
        write_program(lowered.emitted, file)
    return lowered.emitted.methods[0].memory_plan.lower_bound
