# SPDX-License-Identifier: Apache-2.0
"""Actions open declared inputs only, and files of the machine that the documentation lists."""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest
from runfiles import Runfiles
from tracing import Action, opened_files, run_traced


def runfile(path: str) -> Path:
    """Returns the real path of a runfile, by its path in the workspace's directory."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    name = path.removeprefix("../") if path.startswith("../") else f"rules_delegate/{path}"
    location = runfiles.Rlocation(name)
    assert location is not None and Path(location).exists(), f"{path} is not a runfile"
    return Path(location).resolve()


@pytest.fixture(scope="module")
def actions() -> dict[str, Action]:
    """The actions, by the names of their targets."""
    return {
        each["target"]: Action(
            target=each["target"],
            arguments=each["arguments"],
            environment=each["environment"],
            inputs={path: runfile(short_path) for path, short_path in each["inputs"].items()},
            outputs=each["outputs"],
        )
        for each in json.loads(runfile("tests/cache/traced.json").read_text())
    }


def _first_column(page: str, section: str) -> set[str]:
    """Returns the words in backquotes in the first column of a section's table."""
    text = runfile(page).read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


@pytest.fixture(scope="module")
def of_the_machine() -> set[str]:
    """Names of libraries, and patterns of paths, that actions may open although no target declares them."""
    required = _first_column("docs/remote_execution.md", "The worker's image")
    optional = _first_column("docs/caching.md", "Files of the machine")
    assert "libc.so.6" in required
    assert "/etc/ld.so.cache" in optional
    return required | optional


def _matches(path: Path, pattern: str) -> bool:
    if pattern.startswith("/"):
        return fnmatch(str(path), pattern) or path == Path(pattern).resolve()
    # A library, whose file has the rest of its version: libz.so.1 is a link to libz.so.1.2.13.
    of_the_system = path.parts[1] in {"lib", "lib64", "usr"}
    return of_the_system and (fnmatch(path.name, pattern) or fnmatch(path.name, pattern + ".*"))


def undeclared(action: Action, of_the_machine: set[str], folder: Path) -> list[str]:
    """Runs an action; returns the files that it opened without having declared them."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace, which lists the files that a process opens, is not installed")
    root, logs = folder / "root", folder / "logs"
    root.mkdir()
    logs.mkdir()
    done = run_traced(action, root, logs, strace)
    if done.returncode and "PTRACE" in done.stderr.upper():
        pytest.skip(f"strace cannot trace processes here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert not [output for output in action.outputs if not (root / output).exists()]
    opened = opened_files(logs, root)
    # Sources, wheels and the interpreter's modules: a trace that misses them says nothing about others.
    assert sum(action.declares(path) for path in opened) > 500
    return sorted(
        str(path)
        for path in opened
        if not action.declares(path)
        and not path.is_relative_to(root)
        and not any(_matches(path, pattern) for pattern in of_the_machine)
    )


@pytest.mark.parametrize(
    "target", ["digits", "digits_int8", "digits_int8_u55", "digits_mps", "digits_vulkan"]
)
def test_only_declared_files_are_opened(
    actions: dict[str, Action], of_the_machine: set[str], target: str, tmp_path: Path
) -> None:
    found = undeclared(actions[target], of_the_machine, tmp_path)
    assert not found, "\n".join(["files that are opened but not declared:", *found])


def test_undeclared_files_are_found(
    actions: dict[str, Action], of_the_machine: set[str], tmp_path: Path
) -> None:
    """The model reads a file of the machine, and one that is next to its source in the source tree."""
    sibling = runfile("tests/cache/undeclared.py").with_name("BUILD.bazel")
    found = undeclared(actions["undeclared"], of_the_machine, tmp_path)
    assert found == sorted([str(Path("/etc/os-release").resolve()), str(sibling)])
