# SPDX-License-Identifier: Apache-2.0
"""The comparison for XNNPACK on a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import models
import page
import pytest
import torch
import xnnpack_load
import xnnpack_trial
from trial import Outcome
from xnnpack import Programs, Result, xnnpack_tables
from xnnpack_models import XNNPACK_MODELS, Subject
from xnnpack_trial import Run


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs commands in this process, for the small model alone; returns their names."""
    monkeypatch.setattr(xnnpack_trial, "XNNPACK_MODELS", {"one": Subject(models.small, models.small)})
    found: list[str] = []

    def child(script: str, *arguments: Any) -> str:
        name, *rest = map(str, arguments)
        if script == "xnnpack_load.py":
            found.append("load")
            return json.dumps(xnnpack_load.load(name, *rest))
        found.append(name)
        return json.dumps(xnnpack_trial.step(name)(*rest))

    monkeypatch.setattr(page, "child", child)
    return found


def test_programs_agree_with_eager_mode_and_are_kept(tmp_path: Path, commands: list[str]) -> None:
    threads = torch.get_num_threads()
    result = Programs(tmp_path).measure("one", 2)
    assert list(result.runs) == ["eager", "peer", "ours"]
    assert all(0 < run.seconds < 60 for run in result.runs.values())
    for tool in ("peer", "ours"):
        assert result.runs[tool].difference < 1e-5
        outcome = result.outcomes[tool]
        assert outcome.first > 0 and outcome.delegates > 0 and outcome.file > 1000
    assert commands == ["export", "export", "peer", "ours", "load", "load", "run"]
    # A program of other weights is wrong, and those that are kept are not lowered again.
    torch.manual_seed(1)
    xnnpack_trial.archive.save(xnnpack_trial.export_model(models.small()), str(tmp_path / "one.pt2"))
    changed = Programs(tmp_path, ["ours"]).measure("one", 1)
    assert commands[7:] == ["ours", "load", "load", "run"]
    assert changed.runs["ours"].difference > 1e-2 and changed.runs["peer"].difference < 1e-5
    torch.set_num_threads(threads)


def test_the_tables_have_means() -> None:
    def result(lowering: float, seconds: float) -> Result:
        outcomes = {
            "peer": Outcome(first=lowering, delegates=3, operators=2, file=4_000_000),
            "ours": Outcome(first=1.0, delegates=1, operators=0, file=3_000_000),
        }
        runs = {"eager": Run(0.004), "peer": Run(seconds, 1e-6, 0.02), "ours": Run(0.001, 2e-6, 0.01)}
        return Result(outcomes, {"peer": 2 << 20, "ours": 1 << 20}, runs)

    first, second, *_, quantized = XNNPACK_MODELS
    text = xnnpack_tables({first: result(10, 0.002), second: result(40, 0.008), quantized: result(20, 0.003)})
    lines = text.splitlines()
    assert f"| {first} | 10.00 | 1.00 | 10 x | 3 + 2 | 1 + 0 | 4.0 | 3.0 | 2 | 1 |" in lines
    assert "| geometric mean, float32 |  |  | 20 x |  |  |  |  |  |  |" in lines
    assert f"| {first} | 4.0 | 2.0 | 1.0 | 2.00 x | 4.00 x | 1e-06 | 2e-06 |  |  |" in lines
    assert "| geometric mean, float32 |  |  |  | 4.00 x | 4.00 x |  |  |  |  |" in lines
    assert f"| {quantized} | 4.0 | 3.0 | 1.0 | 3.00 x | 4.00 x | 1e-06 | 2e-06 | 2e-02 | 1e-02 |" in lines


def test_the_page_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(text)
    page.write("xnnpack", "new")
    written = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "<!-- xnnpack -->\n\nnew\n<!-- end of xnnpack -->\n" in written
