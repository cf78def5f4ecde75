# SPDX-License-Identifier: Apache-2.0
"""Imports go one way between the compiler's packages, as ARCHITECTURE.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import delegatec

# Package -> the packages of ours that it may import, besides itself.
BELOW: dict[str, set[str]] = {
    "diagnostics": set(),
    "files": set(),
    "edge": {"diagnostics"},
    "delegation": {"edge", "diagnostics"},
    "backends": {"delegation", "edge", "diagnostics"},
    "frontend": {"delegation", "edge", "files", "diagnostics"},
    "program": {"delegation", "edge", "files", "diagnostics"},
    "report": {"program", "delegation", "edge", "diagnostics"},
    "verify": {"program", "delegation", "edge", "diagnostics"},
}


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _names(source: str) -> Iterator[list[str]]:
    """What a module imports of ours, as the parts of its name below `delegatec`."""
    for name in _imported(source):
        parts = name.split(".")
        if parts[0] == "delegatec":
            yield parts[1:]


def _problems(package: str, file: str, source: str) -> Iterator[str]:
    for parts in _names(source):
        if parts[0] != package and parts[0] not in BELOW[package]:
            yield f"{file} imports {'.'.join(parts)}"
        # A backend imports what all share, and no other one; the list of all, in the package itself, each.
        shared = {"common", file.split("/")[1]}
        if package == parts[0] == "backends" and file.count("/") > 1 and parts[1] not in shared:
            yield f"{file} imports {'.'.join(parts)}"


def test_the_check_finds_what_is_wrong() -> None:
    assert [*_problems("edge", "edge/a.py", "def f():\n  from delegatec.cli import main")]
    assert [*_problems("edge", "edge/a.py", "from delegatec import report")]
    assert [*_problems("program", "program/a.py", "import delegatec.frontend.archive")]
    assert [*_problems("backends", "backends/mps/a.py", "from delegatec.backends.other import row")]
    assert [*_problems("backends", "backends/common/a.py", "from delegatec.backends.mps import row")]
    assert not [*_problems("backends", "backends/mps/a.py", "from delegatec.backends.mps import row")]
    assert not [*_problems("backends", "backends/mps/a.py", "from delegatec.backends.common import row")]
    assert not [*_problems("edge", "edge/a.py", "import torch\nfrom delegatec.diagnostics import CODES")]


def test_imports_go_one_way() -> None:
    seen: set[str] = set()
    problems = []
    for root in map(Path, delegatec.__path__):
        for path in sorted(root.rglob("*.py")):
            file = path.relative_to(root).as_posix()
            package = file.partition("/")[0]
            if package in BELOW and not file.endswith("_test.py") and path.name != "testing.py":
                seen.add(package)
                problems += _problems(package, file, path.read_text(encoding="utf-8"))
    assert seen == set(BELOW)
    assert problems == []
