# SPDX-License-Identifier: Apache-2.0
"""The comparison for Vulkan on the smallest model."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import page
import pytest
import torch
import trial
from compare import trials
from tables import Trials
from trial import Outcome
from vulkan import vulkan_table
from vulkan_models import VULKAN_MODELS, peer_test


def _child(script: str, *arguments: str | Path) -> str:
    """Runs the script in this process, which imports both tools once; `compare_test` starts others."""
    assert script == "trial.py"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.setattr(sys, "argv", [script, *map(str, arguments)])
        trial.main()
    return "".join(output.getvalue().splitlines()[-1:])


@pytest.fixture(scope="module")
def results() -> Trials:
    found: Trials = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "child", _child)
        for name, backend, tool, outcome in trials(["small"], ["vulkan fp32"], rounds=0):
            found.setdefault((name, backend), {})[tool] = outcome
    return found


def test_both_tools_lower(results: Trials) -> None:
    (pair,) = results.values()
    for outcome in pair.values():
        assert outcome.error == ""
        assert outcome.first > 0 and outcome.device["calls"] > 5 and outcome.device["memory"] > 0
    assert pair["ours"].device["transitions"] <= pair["peer"].device["transitions"]


def test_the_table_sums_what_both_lower() -> None:
    def outcome(moved: int) -> Outcome:
        device = {"calls": 9, "transitions": 2, "moved": moved, "memory": 1000}
        return Outcome(first=1.5, delegates=1, file=2000, device=device)

    failed = {"peer": Outcome(error="ValueError: no"), "ours": outcome(3)}
    pair = {"peer": outcome(40), "ours": outcome(20)}
    lines = vulkan_table({("a", ""): pair, ("b", ""): pair, ("c", ""): failed}).splitlines()
    assert "| c | peer | fails: ValueError |  |  |  |  |  |  |  |" in lines
    assert lines[-2:] == [
        "| all 2 that both lower | peer | 2 | 0 | 18 | 4 | 80 | 2,000 | 4,000 | 3.00 |",
        "| all 2 that both lower | ours | 2 | 0 | 18 | 4 | 40 | 2,000 | 4,000 | 3.00 |",
    ]
    assert len({line.count("|") for line in lines}) == 1


def test_modules_of_the_peers_tests() -> None:
    names = [name for name in VULKAN_MODELS if name.startswith("peer's ")]
    assert len(names) == 6
    model = peer_test("group_norm")
    assert any(isinstance(module, torch.nn.GroupNorm) for module in model.module.modules())


def test_the_page_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(text)
    page.write("vulkan", "new")
    written = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "<!-- vulkan -->\n\nnew\n<!-- end of vulkan -->\n" in written
