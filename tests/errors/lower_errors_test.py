# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot be lowered, through `delegatec lower`."""

from __future__ import annotations

import json
from pathlib import Path

from problem import Problem, check
from workspace import Workspace, run_process


def test_reasons_name_rule_value_line_and_help(workspace: Workspace) -> None:
    assert workspace.export("partly_delegated").code == 0
    result = workspace.lower("partly_delegated", "--backend=mps", "--reasons=reasons.txt")
    assert result.code == 0, result.text
    reasons = Path("reasons.txt").read_text()
    assert "aten.rand.default, rejected by MPSBackend [operator]: the delegate does not support" in reasons
    assert "    at pkg/partly_delegated.py:11 in forward: " in reasons


def test_valid_model_has_every_output(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    result = workspace.lower("good", "--backend=mps", "--require-full-delegation")
    assert result.code == 0, result.text
    assert {f"good.{name}" for name in ("pte", "manifest", "report", "debug", "ir")} <= workspace.files()
    assert workspace.run("verify", "--program=good.pt2", "--pte=good.pte").code == 0
    debug = json.loads(Path("good.debug").read_text())["methods"]["forward"]
    (delegate,) = debug["delegates"]
    assert [debug["instructions"][i]["calls"] for i in delegate["instructions"]] == [delegate["name"]]
    handles = {str(handle) for group in delegate["map"].values() for handle in group}
    assert handles and handles <= debug["handles"].keys()
    assert {debug["handles"][handle]["source"] for handle in handles} == {"pkg/good.py:15"}


def test_a_failure_keeps_outputs_of_an_earlier_run(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    assert workspace.lower("good").code == 0
    before = {name: Path(name).read_bytes() for name in workspace.files()}
    assert workspace.lower("good", "--backend=none").code == 1
    assert {name: Path(name).read_bytes() for name in workspace.files()} == before


def test_operator_of_a_library_that_is_not_there(workspace: Workspace) -> None:
    # In a separate process: the import of the model registers the operator.
    command = ("export", "--entry=custom_operator:build", "--source=pkg/custom_operator.py")
    exported = run_process(*command, "--program=custom_operator.pt2")
    assert exported.code == 0, exported.text
    result = workspace.lower("custom_operator")
    problem = Problem("DC121", 21, ("mylib.twice.default",))
    check(result.text, "custom_operator", "//pkg:custom_operator_lowered", [problem])
    assert result.code == 1


def test_program_that_computes_something_else(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    assert workspace.lower("good").code == 0
    assert workspace.export("good", "--seed=1").code == 0
    result = workspace.run("verify", "--label=//pkg:good_test", "--program=good.pt2", "--pte=good.pte")
    assert result.code == 1
    assert "//pkg:good_test: error DC502" in result.text
