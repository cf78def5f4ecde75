# SPDX-License-Identifier: Apache-2.0
"""Colors on terminals only, and only if the user has not disabled them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.colors import DIFFERENCE, INSPECTION, colored, is_colorful, write_colored
from delegatec.cli.main import run_verb
from delegatec.frontend import archive


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_when(environment: dict[str, str], expected: bool) -> None:
    assert is_colorful(_Terminal(), environment) is expected
    assert not is_colorful(io.StringIO(), environment)


@pytest.mark.parametrize("choice", ["always", "never"])
def test_names_cannot_control_a_terminal(choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_colored("+ \x1b[2J\x9b1mname\n\u00e4\n", DIFFERENCE, choice)
    text = re.sub(r"\x1b\[(?:32|0)m", "", capsys.readouterr().out)
    assert text == "+ \\x1b[2J\\x9b1mname\n\u00e4\n"


def test_differences() -> None:
    text = "  file\n~   bytes: 1 -> 2\n- gone\n+ new\n"
    assert colored(text, DIFFERENCE).splitlines() == [
        "\x1b[1m  file\x1b[0m",
        "\x1b[33m~   bytes: 1 -> 2\x1b[0m",
        "\x1b[31m- gone\x1b[0m",
        "\x1b[32m+ new\x1b[0m",
    ]


def test_an_inspection_has_the_same_text_with_and_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.save({"forward": export(torch.nn.Linear(4, 2), (torch.rand(1, 4),))}, str(tmp_path / "a.pt2"))
    lower = ["lower", f"--program={tmp_path}/a.pt2", "--backend=mps", f"--pte={tmp_path}/a.pte"]
    assert run_verb(lower) == 0
    capsys.readouterr()
    texts = []
    for choice in ("never", "always", "auto"):
        assert run_verb(["inspect", f"{tmp_path}/a.pte", f"--color={choice}"]) == 0
        texts.append(capsys.readouterr().out)
    plain, bright, piped = texts
    assert plain == piped == re.sub(r"\x1b\[\d*m", "", bright)
    assert "\x1b[1mmethod forward: 1 instruction(s), 2 values\x1b[0m" in bright
    assert "  \x1b[36minput 0\x1b[0m   float32[1, 4]" in bright and "  \x1b[36mdelegates:\x1b[0m" in bright
    assert colored(plain, INSPECTION) == bright


def test_json_has_no_colors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive.save({"forward": export(torch.nn.ReLU(), (torch.rand(1, 4),))}, str(tmp_path / "a.pt2"))
    assert run_verb(["inspect", f"{tmp_path}/a.pt2", "--color=always", "--format=json"]) == 0
    assert "\x1b" not in capsys.readouterr().out
