# SPDX-License-Identifier: Apache-2.0
"""What `bazel run //m:foo.inspect` runs."""

from __future__ import annotations

import json
import subprocess

from runfiles import Runfiles


def inspect(name: str, *arguments: str) -> str:
    """Runs the launcher as a shell would: from elsewhere, with nothing of Bazel in the environment."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    launcher = runfiles.Rlocation(f"rules_delegate/tests/rules/models/{name}.inspect")
    assert launcher is not None
    environment = {"PATH": "/usr/bin:/bin", "RUNFILES_DIR": runfiles.EnvVars()["RUNFILES_DIR"]}
    done = subprocess.run(
        [launcher, *arguments], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_program_as_text() -> None:
    text = inspect("mlp_mps")
    assert "forward" in text
    assert "MPSBackend" in text


def test_a_program_as_json() -> None:
    assert json.loads(inspect("mlp_mps", "--format=json"))


def test_an_exported_program() -> None:
    assert "forward" in inspect("mlp")
