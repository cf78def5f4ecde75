# SPDX-License-Identifier: Apache-2.0
"""The compiler never imports the peer, directly or indirectly."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import delegatec

PEER = "executorch"


def _sources() -> Iterator[Path]:
    for folder in delegatec.__path__:
        yield from sorted(Path(folder).rglob("*.py"))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name in {"import_module", "__import__"}:
                yield from (
                    argument.value
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                )


def _names_the_peer(source: str) -> bool:
    return any(name.partition(".")[0] == PEER for name in _imported(ast.parse(source)))


def test_the_check_finds_imports() -> None:
    assert _names_the_peer("import executorch.exir as e")
    assert _names_the_peer("def f():\n  from executorch.exir import to_edge")
    assert _names_the_peer("import importlib\nimportlib.import_module('executorch')")
    assert not _names_the_peer("'executorch'")


def test_no_source_imports_the_peer() -> None:
    sources = list(_sources())
    assert len(sources) > 50
    assert not [str(source) for source in sources if _names_the_peer(source.read_text(encoding="utf-8"))]


_IMPORT_ALL = """
import importlib.util, pkgutil, sys
import delegatec
names = [m.name for m in pkgutil.walk_packages(delegatec.__path__, "delegatec.")]
# torchao is a library of the quantizer alone: the others are imported without it.
names = [n for n in names if not n.endswith(("_test", "__main__")) and ".quantize." not in n]
for name in names:
    importlib.import_module(name)
assert importlib.util.find_spec("executorch"), "the check needs the peer within reach"
found = sorted(m for m in sys.modules if m.partition(".")[0] == "executorch")
assert not found, found
print(len(names))
"""


def test_no_module_loads_the_peer() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL], env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, delegatec; assert 'torch' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
