# SPDX-License-Identifier: Apache-2.0
"""What `bazel run` of NAME.inspect and its like, a program_diff and the update of a golden test runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from runfiles import Runfiles


def launched(target: str, *arguments: str, workspace: Path | None = None) -> str:
    """Runs the launcher as a shell would: from elsewhere, with nothing of Bazel in the environment.

    Args:
        target: name of a target in the package of models.
        arguments: those after `--`.
        workspace: the directory of `bazel run`.
    """
    runfiles = Runfiles.Create()
    assert runfiles is not None
    launcher = runfiles.Rlocation(f"rules_delegate/tests/rules/models/{target}")
    assert launcher is not None
    environment = {"PATH": "/usr/bin:/bin", "RUNFILES_DIR": runfiles.EnvVars()["RUNFILES_DIR"]}
    if workspace is not None:
        environment |= dict.fromkeys(("BUILD_WORKSPACE_DIRECTORY", "BUILD_WORKING_DIRECTORY"), str(workspace))
    done = subprocess.run(
        [launcher, *arguments], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_program_as_text() -> None:
    text = launched("mlp_mps.inspect")
    assert "forward" in text
    assert "MPSBackend" in text


def test_a_program_as_json() -> None:
    assert json.loads(launched("mlp_mps.inspect", "--format=json"))


def test_an_exported_program() -> None:
    assert "forward" in launched("mlp.inspect")


def test_an_explanation() -> None:
    text = launched("mlp_mps.explain")
    assert text.startswith("//tests/rules/models:mlp_mps, method forward\n  All 3 operators, with all ")
    assert " multiplications of layers and products, run in 1 delegate of MPSBackend.\n" in text


def test_the_address_of_a_report() -> None:
    address = launched("mlp_mps.report")
    assert address.startswith("file:///") and address.endswith("/tests/rules/models/mlp_mps.report.html\n")
    assert "MPSBackend" in Path(address.strip().removeprefix("file://")).read_text()


def test_a_copy_of_a_report(tmp_path: Path) -> None:
    for _ in range(2):  # The copy can be replaced, although Bazel's files are read-only.
        assert launched("mlp_mps.report", "copy.html", workspace=tmp_path) == ""
    assert "MPSBackend" in (tmp_path / "copy.html").read_text()


def test_a_difference() -> None:
    lines = launched("mlp_diff").splitlines()
    assert "~     backends: portable -> mps" in lines and "+       0 MPSBackend" in lines
    assert json.loads(launched("mlp_diff", "--format=json"))["same_bytes"] is False


def test_an_index_has_the_programs_below_its_targets() -> None:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    path = runfiles.Rlocation("rules_delegate/tests/rules/models/index.json")
    assert path is not None
    programs = json.loads(Path(path).read_text())["programs"]
    assert [each["label"].rpartition(":")[2] for each in programs] == ["mlp_mps", "mlp_vulkan"]
    assert all(each["report"] == "" for each in programs)


def test_a_record_is_written_to_the_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "tests/rules/models"
    folder.mkdir(parents=True)
    launched("mlp_golden_test.update", workspace=tmp_path)
    recorded = json.loads((folder / "mlp_golden_test.json").read_text())
    assert recorded["methods"]["forward"]["backends"] == "mps"
