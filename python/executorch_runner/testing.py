# SPDX-License-Identifier: Apache-2.0
"""Arenas of exact sizes, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from executorch_runner.runtime import RUNTIME

# In a file, planned memory is rounded up to this many bytes.
_ALIGNMENT = 16


def measured_arenas(pte: Path, folder: Path, ptd: Path | None = None) -> dict[str, dict[str, Any]]:
    """Returns the least sizes of the arenas of each method.

    Args:
        pte: the program.
        folder: for a temporary file.
        ptd: its external weights.
    """
    RUNTIME.run([*_files(pte, ptd), f"--memory={folder / 'arenas.json'}"])
    found: dict[str, dict[str, Any]] = json.loads((folder / "arenas.json").read_text())
    return found


def insufficient_arenas(
    pte: Path, method: str, sizes: dict[str, Any], ptd: Path | None = None
) -> dict[str, str]:
    """Runs a method with arenas of given sizes, and with one after another that is smaller.

    Args:
        pte: the program.
        method: name of the method.
        sizes: bytes of its arenas, as from `measured_arenas`.
        ptd: its external weights.

    Returns:
        Each arena that can be smaller -> what the runtime says if it is.

    Raises:
        RuntimeError: the method does not run with the given sizes.
    """
    exact = {"method": sizes["method"], "temporary": sizes["temporary"]}
    exact |= {str(number): size for number, size in enumerate(sizes["planned"], 1)}
    _run(_files(pte, ptd), method, exact)
    found = {}
    for kind, size in exact.items():
        if size:
            try:
                _run(_files(pte, ptd), method, {**exact, kind: size - (_ALIGNMENT if kind.isdigit() else 1)})
                found[kind] = ""
            except RuntimeError as error:
                found[kind] = str(error)
    return found


def _files(pte: Path, ptd: Path | None) -> list[str]:
    return [f"--program={pte}", *([] if ptd is None else [f"--data={ptd}"])]


def _run(files: list[str], method: str, arenas: dict[str, int]) -> None:
    flags = [f"--arena={method}:{kind}:{size}" for kind, size in arenas.items()]
    RUNTIME.run([*files, f"--method={method}", "--zeros", *flags])
