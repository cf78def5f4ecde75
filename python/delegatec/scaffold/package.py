# SPDX-License-Identifier: Apache-2.0
"""The files of a new package."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import jinja2

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.scaffold.sources import ModelSource

_TEMPLATES: Final = Path(__file__).parent / "templates"

# Room for the program besides the weights.
_MARGIN: Final = 1.05
_KIB: Final = 1024


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (_TEMPLATES / name).read_text(encoding="utf-8")),
        autoescape=False,
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def files(source: ModelSource, name: str, backends: Sequence[str], rules: str) -> dict[str, str]:
    """Returns the files of a package by name.

    Args:
        source: the model.
        name: of the targets; a Python identifier, as it is also that of the model's file.
        backends: of the programs.
        rules: the repository of the rules in labels, such as "@rules_delegate"; empty in this workspace.
    """
    names = {
        "source": source,
        "name": name,
        "backends": sorted(backends),
        "rules": rules,
        "deps": [each.replace("@rules_delegate//", f"{rules}//") for each in source.deps],
        "max_file_kib": math.ceil(source.weight_bytes * _MARGIN / _KIB) + _KIB if source.weight_bytes else 0,
    }
    return {
        f"{name}.py": _environment().get_template("model.py.jinja").render(names),
        "BUILD.bazel": _environment().get_template("BUILD.bazel.jinja").render(names),
    }


def package_of(folder: Path) -> str:
    """Returns the package of a directory, such as "models/foo".

    Raises:
        DelegatecError: DC004, the directory is not below a workspace.
    """
    for root in folder.absolute().parents:
        if any((root / file).exists() for file in ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel")):
            return os.path.relpath(folder.absolute(), root).replace(os.sep, "/")
    expected = "a directory below that of a MODULE.bazel or WORKSPACE file"
    raise DelegatecError([Diagnostic("DC004", f"{folder} is not in a workspace", expected=expected)])
