# SPDX-License-Identifier: Apache-2.0
"""The import path for processes that tests start, with bytecode of a package.

Sources have none in a build. Without it, each new process compiles what it imports of the compiler, which
takes longer than most commands.
"""

from __future__ import annotations

import compileall
import functools
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

# Directories with copies, which exist as long as this process.
_COPIES: Final[list[tempfile.TemporaryDirectory[str]]] = []


@functools.cache
def compiled_import_path(package: str) -> str:
    """Copies a package and compiles it, once.

    Args:
        package: its name.

    Returns:
        The value of PYTHONPATH, which starts with the copy: tests are not in it.
    """
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    (source,) = spec.submodule_search_locations
    _COPIES.append(tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")))
    folder = _COPIES[-1].name
    shutil.copytree(source, Path(folder, package), ignore=shutil.ignore_patterns("*_test.py", "__pycache__"))
    assert compileall.compile_dir(folder, quiet=1, maxlevels=100)
    return ":".join([folder, *filter(None, sys.path)])
