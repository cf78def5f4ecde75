# SPDX-License-Identifier: Apache-2.0
"""Each test file belongs to a target of its package, by name or by a glob, and each target has a timeout."""

from __future__ import annotations

import re
from pathlib import Path

from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent
FOLDERS = ("bench", "docs", "examples", "python", "rules", "tests", "third_party", "tools")

_TARGET = re.compile(
    r"^ *(?:nested_bazel_test|pytest_test|py_test|native\.py_test)\((.*?)^ *\)", re.MULTILINE | re.DOTALL
)
_OTHER_TARGET = re.compile(r"^ *(?:program_test|py_test)\((.*?)^ *\)", re.MULTILINE | re.DOTALL)


def _package(test: Path) -> Path:
    return next(folder for folder in test.parents if (folder / "BUILD.bazel").is_file())


def _loaded(build: Path) -> list[Path]:
    """Returns the files of this workspace that a BUILD file loads macros from."""
    labels = re.findall(r'^load\(\s*"//([^":]*):([^"]+)"', build.read_text(), re.MULTILINE)
    return [ROOT / package / name for package, name in labels]


def _is_named(test: Path, package: Path) -> bool:
    path = test.relative_to(package)
    patterns = {path.as_posix(), (path.parent / "*_test.py").as_posix()}
    patterns |= {(folder / "**/*_test.py").as_posix() for folder in path.parents}
    targets = [
        target
        for file in (package / "BUILD.bazel", *package.glob("*.bzl"), *_loaded(package / "BUILD.bazel"))
        for target in _TARGET.findall(file.read_text())
    ]
    return any(f'"{pattern}"' in target for target in targets for pattern in patterns)


def test_every_test_file_belongs_to_a_target() -> None:
    tests = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*_test.py"))
        if "workspace" not in path.parts
    ]
    assert len(tests) > 30
    forgotten = [str(test.relative_to(ROOT)) for test in tests if not _is_named(test, _package(test))]
    assert forgotten == []


def test_every_target_has_a_timeout_for_busy_machines() -> None:
    """A pytest_test has a timeout from its macro; the others declare theirs."""
    builds = [
        path for path in ROOT.rglob("BUILD.bazel") if not path.relative_to(ROOT).parts[0].startswith("bazel-")
    ]
    targets = [(path, target) for path in builds for target in _OTHER_TARGET.findall(path.read_text())]
    assert len(targets) > 10
    missing = [
        f"{path.relative_to(ROOT)}: {target}" for path, target in targets if "timeout = " not in target
    ]
    assert missing == []
