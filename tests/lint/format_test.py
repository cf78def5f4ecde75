# SPDX-License-Identifier: Apache-2.0
"""Python conforms to ruff, and Starlark to buildifier."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None

# Disabled warnings of buildifier.
PASSED_OVER = ",".join(
    (
        # `delegate_programs(name = "foo", program = ":foo")` makes foo_mps and its like.
        "-duplicated-name",
        # Macros for WORKSPACE files create repositories with fixed names.
        "-unnamed-macro",
        # Private files of the rules are private for other repositories.
        "-bzl-visibility",
    )
)


def located(path: str) -> Path:
    """A run file's real path."""
    location = RUNFILES.Rlocation(path)
    assert location, path
    return Path(location).resolve()


ROOT = located("rules_delegate/WORKSPACE").parent
RUFF = located("delegatec_pip_lint/site-packages/bin/ruff")
BUILDIFIER = located("delegatec_buildifier/buildifier")


def check(*command: str | Path) -> None:
    """Fails with the output of a command if the command fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"


def test_the_source_tree_is_found() -> None:
    assert (ROOT / "python" / "delegatec" / "__init__.py").is_file()


def test_python_is_clean() -> None:
    check(RUFF, "check", "--no-cache", "--quiet", "--output-format=concise", ".")


def test_python_is_formatted() -> None:
    check(RUFF, "format", "--no-cache", "--check", ".")


def test_starlark_is_clean_and_formatted() -> None:
    check(BUILDIFIER, "-mode=check", "-lint=warn", f"-warnings={PASSED_OVER}", "-r", ".")
