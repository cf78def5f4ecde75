# SPDX-License-Identifier: Apache-2.0
"""Data files of a model, such as checkpoints."""

from __future__ import annotations

import os
import re
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import wrong_argument
from delegatec.diagnostics.exceptions import printable
from delegatec.frontend import session

_EXTERNAL: Final = re.compile(r"^external/[^/]+/(?=.)")


def data_path(name: str) -> str:
    """Finds a file of the `data` attribute of the `exported_program` target (`--data` on the command line).

    Outside an export, such as in a training script or a test, the file is searched for next to the calling
    file, and below the working directory.

    Args:
        name: path of a declared file, or of a file in a declared directory, relative to the directory of the
            model's source ("foo.safetensors"), or to the workspace root ("models/foo.safetensors"); a file of
            another repository is named relative to the root of that repository.

    Returns:
        The path of the file.

    Raises:
        DelegatecError: DC115, the file is not declared, or does not exist; DC415, `name` is not a path.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise wrong_argument("delegatec.data_path", "name", name, "the path of a data file")
    name = os.fspath(name)
    running = session.current()
    if running is None:
        return _undeclared(name)
    folder = os.path.dirname(running.workspace.relative(running.source))
    wanted = dict.fromkeys(os.path.normpath(os.path.join(start, name)) for start in (folder, ""))
    declared = {path: running.workspace.relative(path) for path in running.data}
    inside = {path: _inside_repository(relative) for path, relative in declared.items()}
    for names in (declared, inside):
        for path, relative in names.items():
            for candidate in wanted:
                inner = os.path.relpath(candidate, relative)
                if inner == os.curdir or (os.path.isdir(path) and not inner.startswith(os.pardir)):
                    return _existing(os.path.normpath(os.path.join(path, inner)), candidate)
    base = os.path.basename(name)
    near = next((path for path in sorted(inside.values()) if os.path.basename(path) == base), None)
    raise _missing(
        f'undeclared data file "{name}"',
        f'write delegatec.data_path("{near}"), or add another file to `data` of the exported_program target'
        if near is not None
        else f'add it to `data` of the exported_program target: data = ["{base}"]',
        expected=f"one of: {', '.join(sorted(inside.values())) or 'none'}",
    )


def _inside_repository(path: str) -> str:
    """Returns the path of a file in its own repository: external/REPOSITORY/PATH is that of another one."""
    return _EXTERNAL.sub("", path)


def _existing(path: str, name: str) -> str:
    if not os.path.exists(path):
        raise _missing(f"data file {name} does not exist", "check the path in `data`")
    return path


def _undeclared(name: str) -> str:
    frame = session.calling_frame()
    folders = [os.path.dirname(frame.f_code.co_filename)] if frame else []
    for folder in [*folders, ""]:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise _missing(
        f'no file "{printable(name)}"', "give the path relative to the calling file, or to the workspace"
    )


def _missing(message: str, help_text: str, expected: str = "") -> DelegatecError:
    return DelegatecError(
        [Diagnostic("DC115", message, location=session.caller(), expected=expected, help=help_text)]
    )
