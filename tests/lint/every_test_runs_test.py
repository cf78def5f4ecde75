# SPDX-License-Identifier: Apache-2.0
"""No test file is forgotten: each one is named, by itself or by a glob, in the package that it lies in."""

from __future__ import annotations

import re
from pathlib import Path

from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent

_TARGET = re.compile(r"^ *(?:pytest_test|py_test|native\.py_test)\((.*?)^ *\)", re.MULTILINE | re.DOTALL)


def _package(test: Path) -> Path:
    return next(folder for folder in test.parents if (folder / "BUILD.bazel").is_file())


def _is_named(test: Path, package: Path) -> bool:
    path = test.relative_to(package)
    patterns = {path.as_posix(), (path.parent / "*_test.py").as_posix()}
    patterns |= {(folder / "**/*_test.py").as_posix() for folder in path.parents}
    targets = [
        target
        for file in (package / "BUILD.bazel", *package.glob("*.bzl"))
        for target in _TARGET.findall(file.read_text())
    ]
    return any(f'"{pattern}"' in target for target in targets for pattern in patterns)


def test_every_test_file_belongs_to_a_target() -> None:
    tests = [
        path
        for folder in ("bench", "docs", "examples", "python", "rules", "tests", "third_party")
        for path in sorted((ROOT / folder).rglob("*_test.py"))
        if "workspace" not in path.parts
    ]
    assert len(tests) > 30
    forgotten = [str(test.relative_to(ROOT)) for test in tests if not _is_named(test, _package(test))]
    assert forgotten == []
