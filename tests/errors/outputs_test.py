# SPDX-License-Identifier: Apache-2.0
"""No command deletes or replaces a file of the user's, and none succeeds without its outputs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from workspace import Workspace, process_of, run_process

EXPORT = ("export", "--entry=good:build", "--source=pkg/good.py", "--program=good.pt2")
LOWER = ("lower", "--program=good.pt2", "--pte=good.pte")

# What `forward` does while it is traced.
ENDINGS = {
    "system_exit": "raise SystemExit(0)",
    "exit": "__import__('os')._exit(0)",
    "exec": "__import__('os').execv('/bin/true', ['true'])",
    "daemon": "__import__('os').fork() and __import__('os')._exit(0)",
}


def model(statement: str, value: str = "x + 1") -> str:
    return f"""
import torch, delegatec

class Net(torch.nn.Module):
    def forward(self, x):
        {statement}
        return {value}

def build():
    return delegatec.Model(Net(), (torch.zeros(2),))
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*EXPORT, "--program=pkg/good.py"), "--program=pkg/good.py: the same file as --source"),
        ((*EXPORT, "--program=link.py"), "--program=link.py: the same file as --source"),
        ((*EXPORT, "--data=data", "--signature=data"), "--signature=data: the same file as --data"),
        ((*EXPORT, "--signature=./good.pt2"), "--signature=./good.pt2: the same file as --program"),
        ((*LOWER, "--pte=good.pt2"), "--pte=good.pt2: the same file as --program"),
        ((*LOWER, "--manifest=good.pte"), "--manifest=good.pte: the same file as --pte"),
        (("weights", "--program=good.pt2", "--ptd=good.pt2"), "--ptd=good.pt2: the same file as --program"),
        ((*LOWER, "--pte=pkg"), "--pte=pkg: Is a directory"),
        ((*LOWER, "--pte=/dev/null"), "--pte=/dev/null: Not a regular file"),
        ((*LOWER, "--pte=pipe"), "--pte=pipe: Not a regular file"),
        ((*LOWER, "--pte=no/such/folder"), "--pte=no/such/folder: its directory does not exist"),
        ((*LOWER, "--pte=good.pt2/a.pte"), "--pte=good.pt2/a.pte: its directory does not exist"),
    ],
)
def test_outputs_that_would_destroy_something(
    workspace: Workspace, arguments: tuple[str, ...], words: str
) -> None:
    for name in ("good.pt2", "data"):
        Path(name).write_text(name)
    Path("link.py").symlink_to("pkg/good.py")
    os.mkfifo("pipe")
    before, source = workspace.files(), Path("pkg/good.py").read_text()
    result = workspace.run(*arguments)
    assert result.code == 1
    assert f"error DC004: {words}\n  help: " in result.text
    assert workspace.files() == before and Path("pkg/good.py").read_text() == source


def test_all_outputs_are_named_at_once(workspace: Workspace) -> None:
    outputs = ("--pte=pkg", "--manifest=no/a", "--debug=good.pt2", "--ir=good.pt2")
    assert workspace.run(*LOWER, *outputs).text.count("error DC004: ") == 4


def test_a_failure_leaves_older_outputs(workspace: Workspace) -> None:
    for name in ("not_a_model.pt2", "not_a_model.json"):
        Path(name).write_text("old")
    assert workspace.export("not_a_model").code == 1
    assert Path("not_a_model.pt2").read_text() == Path("not_a_model.json").read_text() == "old"


def test_one_failing_output_leaves_all(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.export("good")
    Path("good.pte").write_text("old")

    def fail(*_: object) -> str:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("delegatec.report.debug_map.debug_map_json", fail)
    before = workspace.files()
    result = workspace.run(*LOWER, "--debug=good.debug")
    assert result.code == 1
    assert "error DC002: cannot write the output: No space left on device" in result.text
    assert workspace.files() == before and Path("good.pte").read_text() == "old"


def test_concurrent_writers_of_one_file(workspace: Workspace) -> None:
    workspace.export("good")
    running = [process_of(*LOWER) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert workspace.run("inspect", "good.pte").code == 0
    assert not list(workspace.root.glob(".*"))


def test_a_model_that_changes_the_directory(workspace: Workspace) -> None:
    Path("pkg/moving.py").write_text(model("__import__('os').chdir('/')"))
    result = workspace.run(*EXPORT, "--entry=moving:build", "--source=pkg/moving.py")
    assert result.code == 0
    assert "good.pt2" in workspace.files()


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_way_to_end_a_process_is_success(workspace: Workspace, ending: str) -> None:
    Path("pkg/ending.py").write_text(model(ENDINGS[ending]))
    result = run_process("export", "--entry=ending:build", "--source=pkg/ending.py", "--program=ending.pt2")
    assert result.code == 1
    assert ("error DC110: " if ending == "system_exit" else "error DC005: ") in result.text
    assert "Traceback" not in result.text
    assert not [name for name in workspace.files() if "ending" in name]


def test_a_fork_in_a_model_is_harmless(workspace: Workspace) -> None:
    Path("pkg/forking.py").write_text(model("__import__('os').fork()"))
    result = run_process("export", "--entry=forking:build", "--source=pkg/forking.py", "--program=a.pt2")
    assert result.code == 0, result.text
    assert "a.pt2" in workspace.files()


@pytest.mark.parametrize("verb", ["lower", "verify"])
def test_a_plug_in_that_exits(workspace: Workspace, verb: str) -> None:
    workspace.export("good")
    assert workspace.run(*LOWER).code == 0
    Path("exiting.py").write_text("import sys\nsys.exit(0)\n")
    pte = "--pte=b.pte" if verb == "lower" else "--pte=good.pte"
    result = workspace.run(
        verb, "--program=good.pt2", pte, "--backend=exiting:backend", f"--import-path={workspace.root}"
    )
    assert result.code == 1
    assert "SystemExit" in result.text and "exiting.py:2" in result.text
    assert "Traceback" not in result.text and "b.pte" not in workspace.files()


def test_a_closed_pipe(workspace: Workspace) -> None:
    workspace.export("good")
    process = process_of("inspect", "good.pt2", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 1


def test_termination_leaves_no_temporary_files(workspace: Workspace) -> None:
    Path("pkg/slow.py").write_text(model("open('started', 'w').close(); __import__('time').sleep(100)"))
    process = process_of("export", "--entry=slow:build", "--source=pkg/slow.py", "--program=a.pt2")
    while not Path("started").exists():
        assert process.poll() is None
    process.terminate()
    assert process.wait() == 143
    assert workspace.files() == {"started"}
