# SPDX-License-Identifier: Apache-2.0
"""The error on a host without a suitable Python."""

from __future__ import annotations

from pathlib import Path

from nested_bazel import nested_bazel, source_root

WORKSPACE = """\
local_repository(name = "rules_delegate", path = "%s")
load("@rules_delegate//third_party/python:interpreter.bzl", "python_interpreter")
load("@rules_delegate//third_party/python:rows.bzl", "python_row")
python_row(name = "delegatec_row")
python_interpreter(name = "another_python")
"""


def test_no_python_3_11(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "WORKSPACE").write_text(WORKSPACE % source_root())
    wrong = tmp_path / "python"
    wrong.write_text("#!/bin/sh\necho 3.9\n")
    wrong.chmod(0o755)
    with nested_bazel(workspace, tmp_path / "output") as bazel:
        refused = bazel.attempt("query", "@another_python//:all", f"--repo_env=DELEGATEC_PYTHON={wrong}")
    assert refused.returncode != 0
    assert "error DC010: no usable Python 3.11 on this host" in refused.stderr
    assert f"tried: {wrong}: is Python 3.9" in refused.stderr
    assert "help: apt-get install python3.11" in refused.stderr
    assert "or: --repo_env=DELEGATEC_ROW=3.13 builds with a Python that is downloaded" in refused.stderr
