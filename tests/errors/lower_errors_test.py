# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot be lowered, through `delegatec lower`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from problem import Problem, check
from workspace import Workspace, run_process


@dataclass(frozen=True)
class Case:
    """A model, how it is lowered, and its error."""

    model: str
    arguments: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)


CASES = {
    "operator": Case(
        "unsupported_operator",
        (),
        [
            Problem("DC201", 11, ("linalg_qr", "torch.linalg.qr(x).Q")),
            Problem("DC201", 12, ("mode", "torch.mode(x).values")),
        ],
    ),
    "complex": Case(
        "complex_values",
        (),
        [
            Problem("DC202", 11, ("linalg_svdvals", "complex")),
        ],
    ),
    "half_overflow": Case(
        "half_overflow",
        ("--backend=mps", "--option=precision=fp16"),
        [Problem("DC406", 16, ("large", "1e+06")), Problem("DC406", 16, ("larger", "1e+09"))],
    ),
    "partly_delegated": Case(
        "partly_delegated",
        ("--backend=mps", "--require-full-delegation"),
        [Problem("DC405", 11, ("rand",))],
    ),
    "backend": Case("good", ("--backend=msp",), [Problem("DC401", 0, ("'msp'", "mps"))]),
    "plug-in": Case(
        "good", ("--backend=pkg.good:BACKEND", "--import-path=."), [Problem("DC403", 0, ("BACKEND",))]
    ),
    "option": Case(
        "good",
        ("--backend=mps", "--option=precison=fp16", "--option=precision=fp8"),
        [
            Problem("DC402", 0, ("'fp8'", "fp16", "fp32")),
            Problem("DC402", 0, ("'precison'", "'precision'")),
        ],
    ),
    "option of one value": Case(
        "good",
        ("--backend=mps", "--option=precision=fp16", "--option=precision=fp32"),
        [Problem("DC402", 0, ("'precision'", "one string", "fp16"))],
    ),
    "rules": Case(
        "good",
        ("--backend=mps", "--block-operator=aten.linaer", "--allow-module=encoder", "--minimum-nodes=0"),
        [
            Problem("DC412", 0, ("block_operators", "aten.linaer", "aten.linear")),
            Problem("DC412", 0, ("allow_modules", "encoder")),
            Problem("DC412", 0, ("minimum_nodes", "0", "1 or more")),
        ],
    ),
    "left by a rule": Case(
        "good",
        ("--backend=mps", "--block-operator=aten.linear", "--require-full-delegation"),
        [Problem("DC405", 15, ("aten.linear.default", "block_operators"))],
    ),
    "method": Case(
        "good",
        ("--backend=mps", "--method-backend=forwards=portable"),
        [Problem("DC413", 0, ("'forwards'", "'forward'"))],
    ),
    "option of one of several": Case(
        "good",
        ("--backend=mps", "--method-backend=forward=pkg.good:BACKEND", "--option=precision=fp16"),
        [Problem("DC403", 0, ("BACKEND",))],
    ),
    "pass": Case(
        "good",
        ("--print-after=fold_cast", "--print-after=mps"),
        [
            Problem("DC416", 0, ("fold_cast", "all, lower_complex, decompose", "'fold_casts'")),
            Problem("DC416", 0, ("mps",)),
        ],
    ),
    "option of portable": Case("good", ("--option=precision=fp16",), [Problem("DC402", 0, ("portable",))]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_program(workspace: Workspace, name: str) -> None:
    case = CASES[name]
    assert workspace.export(case.model).code == 0
    before = workspace.files()
    result = workspace.lower(case.model, *case.arguments)
    check(result.text, case.model, f"//pkg:{case.model}_lowered", case.problems)
    assert result.code == 1
    assert workspace.files() == before


FAULTY = """
class Faulty:
    id, name, options = "FaultyBackend", "faulty", {}
    compile_specs = preserved_operators = reference = lambda self, *_: []

    def partitioner(self, specs):
        self.partition = lambda program: [node.nothing for node in program.graph.nodes]
        return self

    def preprocess(self, view, specs):
        pass


BACKEND = Faulty()
"""


def test_an_exception_is_attributed_to_the_plug_in(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    Path("faulty.py").write_text(FAULTY)
    command = ("lower", "--label=//pkg:good", "--program=good.pt2", "--pte=good.pte", "--import-path=.")
    result = run_process(*command, "--backend=faulty:BACKEND")
    assert result.code == 1
    assert "//pkg:good: error DC410: partitioner Faulty raises AttributeError: " in result.text
    assert "  at faulty.py:7 in " in result.text
    assert "bug in the backend" in result.text and "Traceback" not in result.text


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


def test_damaged_program(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    archive = Path("good.pt2")
    archive.write_bytes(archive.read_bytes()[:500])
    result = workspace.lower("good")
    assert result.code == 1
    assert "error DC120: cannot read good.pt2" in result.text


def test_program_that_computes_something_else(workspace: Workspace) -> None:
    assert workspace.export("good").code == 0
    assert workspace.lower("good").code == 0
    assert workspace.export("good", "--seed=1").code == 0
    result = workspace.run("verify", "--label=//pkg:good_test", "--program=good.pt2", "--pte=good.pte")
    assert result.code == 1
    assert "//pkg:good_test: error DC502" in result.text
