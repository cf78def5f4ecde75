# SPDX-License-Identifier: Apache-2.0
"""The comparison with other tools, of our programs of a small network."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import page
import pytest
import rivals_trial
import torch
from rivals import Files, Result, rivals_tables
from rivals_models import NETWORKS, Inputs, small
from rivals_tools import FLOAT, INT8, OURS, TOOLS, Tool
from rivals_trial import EAGER, Run, file_of, measure, record_of
from torch import Tensor


def _fails(*_: Any) -> None:
    raise ValueError("the tool does not support it")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs commands here, for a small network, by our tool and one that fails; returns their names."""
    other = Tool(".other", _fails, _fails, TOOLS[OURS].load, ("torch",))
    monkeypatch.setattr(rivals_trial, "NETWORKS", {"one": small()})
    monkeypatch.setattr(rivals_trial, "TOOLS", {OURS: TOOLS[OURS], "LiteRT": other})
    found: list[str] = []

    def child(_: str, *arguments: Any) -> str:
        name, *rest = map(str, arguments)
        found.append(name)
        return json.dumps(rivals_trial.COMMANDS[name](*rest))

    monkeypatch.setattr(page, "child", child)
    return found


def test_files_agree_with_eager_mode_and_are_kept(tmp_path: Path, commands: list[str]) -> None:
    threads = torch.get_num_threads()
    files, tools = Files(tmp_path), [OURS, "LiteRT"]
    for precision, bound in ((FLOAT, 1e-5), (INT8, 0.2)):
        for tool in tools:
            files.make(tool, precision, ["one"])
        result = files.measure(precision, "one", 0, tools)
        assert list(result.runs) == [EAGER, OURS]
        assert 0 < result.runs[OURS].seconds < 60 and result.runs[OURS].error < bound
        assert result.failures == {"LiteRT": "ValueError"} and result.ratio is None
    # Quantized values differ from floats.
    assert result.runs[OURS].error > 1e-4
    assert files.versions() == [f"torch {torch.__version__}"] * 4
    assert commands == ["convert", "convert", "run"] * 2
    again = Files(tmp_path)
    again.make(OURS, INT8, ["one"])
    assert again.measure(INT8, "one", 0, tools) == result and len(commands) == 6
    torch.set_num_threads(threads)


def test_files_that_are_missing_are_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool, name in ((OURS, "LSTM"), ("LiteRT", "LSTM"), ("LiteRT", "MiniLM")):
        record_of(file_of(tmp_path, tool, INT8, name)).write_text(
            json.dumps({"failure": "", "versions": "one 1"})
        )
    run: list[str] = []

    def child(_: str, __: str, name: str, ___: str, *files: str) -> str:
        run.extend([name, *(each.partition("=")[0] for each in files)])
        return "{}"

    monkeypatch.setattr(page, "child", child)
    files = Files(tmp_path)
    assert files.made(INT8, ["MiniLM", "LSTM"]) == ["LSTM"] and files.made(FLOAT, ["LSTM"]) == []
    files.measure(INT8, "LSTM", 0, ["peer", "LiteRT", OURS])
    assert run == ["LSTM", "LiteRT", OURS]


def test_a_tool_that_dies_goes_on_with_the_next_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def child(_: str, command: str, folder: Path, tool: str, precision: str, *names: str) -> str:
        asked.append([*names])
        record = record_of(file_of(folder, tool, precision, names[0]))
        record.write_text(json.dumps({"failure": "dies", "versions": "one 1"}))
        raise subprocess.CalledProcessError(-11, command)

    monkeypatch.setattr(page, "child", child)
    Files(tmp_path).make("LiteRT", FLOAT, ["BERT-base", "LSTM"])
    assert asked == [["BERT-base", "LSTM"], ["LSTM"]]

    def lost(*_: Any) -> str:
        raise subprocess.CalledProcessError(1, "python")

    monkeypatch.setattr(page, "child", lost)
    with pytest.raises(subprocess.CalledProcessError):
        Files(tmp_path).make("LiteRT", FLOAT, ["Conformer"])


def test_a_wrong_result_of_any_input_is_an_error() -> None:
    def eager(inputs: Inputs) -> Sequence[Tensor]:
        return [inputs[0] * 2]

    def wrong(inputs: Inputs) -> Sequence[Tensor]:
        return [inputs[0] * 2 + (inputs[0].max() > 3)]

    inputs = [(torch.tensor([float(number), 1.0]),) for number in range(5)]
    runs = measure({EAGER: eager, "other": wrong}, inputs, 0)
    assert runs[EAGER].error == 0 and runs["other"].error == pytest.approx(1 / 8)
    lost = measure({EAGER: eager, "other": lambda values: [values[0] * torch.nan]}, inputs, 0)
    assert lost["other"].error == math.inf


def test_the_tables_have_means_and_failures() -> None:
    def result(*seconds: float, failures: dict[str, str] | None = None) -> Result:
        names = [EAGER, "peer", "ONNX Runtime", "LiteRT", OURS]
        found = {name: Run(each, 1e-6) for name, each in zip(names, seconds, strict=True) if each}
        return Result(found, failures or {})

    float_runs = {
        "BERT-base": result(0.04, 0.03, 0.02, 0.015, 0.01),
        "LSTM": result(0.004, 0.03, 0.006, 0, 0.001, failures={"LiteRT": "ValueError"}),
        "Conformer": result(0.004, 0, 0, 0, 0.001, failures={}),
    }
    lines = rivals_tables({FLOAT: float_runs}).splitlines()
    assert "### float32" in lines
    assert (
        "| BERT-base | 40.00 | 30.00 | 20.00 | 15.00 | 10.00 | 1.50 x | 1e-06 | 1e-06 | 1e-06 | 1e-06 |"
        in lines
    )
    assert "| LSTM | 4.00 | 30.00 | 6.00 | ValueError | 1.00 | 6.00 x | 1e-06 | 1e-06 |  | 1e-06 |" in lines
    assert "| Conformer | 4.00 |  |  |  | 1.00 |  |  |  |  | 1e-06 |" in lines
    assert "| geometric mean |  |  |  |  |  | 3.00 x |  |  |  |  |" in lines


@pytest.mark.parametrize("name", ["LSTM", "Conformer", "MobileNetV3-large"])
def test_the_signal_reaches_the_results(name: str) -> None:
    module = NETWORKS[name].module()
    with torch.no_grad():
        first, second = (module(*NETWORKS[name].inputs(number)) for number in range(2))
    assert (first - second).abs().max() > max(1e-2, 0.1 * float(first.abs().max()))


def test_the_page_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(text)
    page.write("rivals", "new")
    written = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "<!-- rivals -->\n\nnew\n<!-- end of rivals -->\n" in written
