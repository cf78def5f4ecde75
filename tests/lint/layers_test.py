# SPDX-License-Identifier: Apache-2.0
"""Imports between the compiler's packages, and inside each, are acyclic, as in ARCHITECTURE.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import delegatec

# Imports allowed in all packages that read graphs with delegates.
_GRAPHS = {"delegation", "edge", "diagnostics"}

# Package or top-level module -> packages and modules that it may import.
BELOW: dict[str, set[str]] = {
    "version": set(),
    "diagnostics": set(),
    "files": set(),
    "flatbuffer": {"diagnostics"},
    "edge": {"diagnostics"},
    "delegation": {"edge", "diagnostics"},
    "accuracy": {"delegation", "diagnostics", "program", "verify"},
    "app": _GRAPHS | {"program", "report"},
    "backends": _GRAPHS | {"flatbuffer"},
    "samples": {"diagnostics"},
    "scaffold": {"diagnostics"},
    "frontend": _GRAPHS | {"files", "samples"},
    "language": {"diagnostics", "edge", "files", "frontend", "verify"},
    "profile": _GRAPHS | {"files", "flatbuffer", "program", "report"},
    "program": _GRAPHS | {"files", "flatbuffer"},
    "quantize": {"diagnostics", "edge", "files", "frontend", "samples"},
    "report": _GRAPHS | {"program", "samples"},
    "verify": _GRAPHS | {"program", "samples"},
    "choice": _GRAPHS | {"backends"},
    "delegating": _GRAPHS | {"backends"},
    "full_delegation": _GRAPHS | {"program"},
    "idle_settings": {"delegation", "diagnostics", "program"},
    "notes": _GRAPHS,
    "inspecting": {"backends", "delegation", "diagnostics", "report"},
    "lowering": _GRAPHS
    | {"choice", "files", "full_delegation", "idle_settings", "notes", "program", "report", "samples"},
    "quantizing": {"diagnostics", "quantize"},
    "verifying": {"backends", "delegation", "diagnostics", "frontend", "samples", "verify"},
    "extracting": _GRAPHS | {"backends", "lowering", "report"},
    "cli": _GRAPHS
    | {
        "accuracy",
        "app",
        "backends",
        "files",
        "frontend",
        "language",
        "lowering",
        "profile",
        "program",
        "quantize",
        "report",
        "samples",
        "scaffold",
        "verify",
    }
    | {"version"},
    "__init__": _GRAPHS
    | {"delegating", "extracting", "frontend", "inspecting", "language", "lowering", "quantizing"}
    | {"report", "verify", "verifying", "version"},
    "__main__": {"cli"},
}


def _sources() -> dict[str, str]:
    """Returns path below the compiler's root -> text, without tests and their helpers."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for root in map(Path, delegatec.__path__)
        for path in sorted(root.rglob("*.py"))
        if not path.name.endswith("_test.py") and "testing" not in path.with_suffix("").parts
    }


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _names(source: str) -> Iterator[list[str]]:
    """Returns the imports of a module, as the parts of their names below `delegatec`."""
    for name in _imported(source):
        parts = name.split(".")
        if parts[0] == "delegatec":
            yield parts[1:]


def _problems(file: str, source: str) -> Iterator[str]:
    package = file.partition("/")[0].removesuffix(".py")
    if package not in BELOW:
        yield f"{package} has no row in BELOW"
        return
    for parts in _names(source):
        if parts[0] != package and parts[0] not in BELOW[package]:
            yield f"{file} imports {'.'.join(parts)}"
        # A backend imports no other one; the list of all, in the package itself, imports each.
        if package == parts[0] == "backends" and file.count("/") > 1 and parts[1] not in _siblings(file):
            yield f"{file} imports {'.'.join(parts)}"


def _siblings(file: str) -> set[str]:
    """Packages in `backends` that a file of one of them may import."""
    own = file.split("/")[1]
    return {own} if own == "common" else {own, "common"}


def _file(parts: list[str], sources: Mapping[str, str]) -> str:
    """The file that an import runs: a module, a package, or that of a name in either."""
    for end in (len(parts), len(parts) - 1):
        for file in ("/".join(parts[:end]) + ".py", "/".join([*parts[:end], "__init__.py"])):
            if file in sources:
                return file
    return ""


def _cycles(sources: Mapping[str, str]) -> Iterator[str]:
    """Returns the directories with cyclic imports between their files and subdirectories."""
    arrows = [
        (file, target)
        for file, source in sources.items()
        for parts in _names(source)
        if (target := _file(parts, sources))
    ]
    for folder in sorted(
        {"", *(f"{parent.as_posix()}/" for file in sources for parent in Path(file).parents[:-1])}
    ):
        graph: dict[str, set[str]] = {}
        for pair in arrows:
            if all(file.startswith(folder) for file in pair):
                start, end = (file.removeprefix(folder).partition("/")[0] for file in pair)
                if start != end:
                    graph.setdefault(start, set()).add(end)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield f"{folder or 'the root'}: {' is imported by '.join(error.args[1])}"


def test_the_check_finds_a_wrong_layer() -> None:
    assert [*_problems("edge/a.py", "def f():\n  from delegatec.cli import main")]
    assert [*_problems("edge/a.py", "from delegatec import report")]
    assert [*_problems("program/a.py", "import delegatec.frontend.archive")]
    assert [*_problems("choice.py", "from delegatec.lowering import lower")]
    assert [*_problems("another.py", "")] and [*_problems("another/a.py", "")]
    assert [*_problems("backends/mps/a.py", "from delegatec.backends.other import row")]
    assert [*_problems("backends/common/a.py", "from delegatec.backends.mps import row")]
    assert not [*_problems("backends/mps/a.py", "from delegatec.backends.mps import row")]
    assert not [*_problems("backends/mps/a.py", "from delegatec.backends.common import row")]
    assert not [*_problems("edge/a.py", "import torch\nfrom delegatec.diagnostics import CODES")]


def test_the_check_finds_a_circle() -> None:
    def between(*imports: str) -> list[str]:
        return [
            *_cycles(
                {"p/__init__.py": "", **dict(zip(("p/a.py", "p/b/c.py", "p/b/d.py"), imports, strict=True))}
            )
        ]

    down = ("import delegatec.p.b.c", "from delegatec.p.b import d", "")
    assert between(*down) == []
    assert between(*down[:2], "from delegatec.p.b.c import x") == [
        "p/b/: c.py is imported by d.py is imported by c.py"
    ]
    # The files are acyclic, but the directory both imports a.py and is imported by it.
    assert between(*down[:2], "import delegatec.p") == []
    assert len(between("import delegatec.p.b.c", "", "import delegatec.p.a")) == 1


def test_imports_are_acyclic() -> None:
    sources = _sources()
    assert len(sources) > 200
    assert {file.partition("/")[0].removesuffix(".py") for file in sources} == set(BELOW)
    assert [problem for file, source in sources.items() for problem in _problems(file, source)] == []


def test_imports_inside_a_package_are_acyclic() -> None:
    assert [*_cycles(_sources())] == []
