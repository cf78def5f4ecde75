# SPDX-License-Identifier: Apache-2.0
"""The inference benchmark on its smallest model."""

from __future__ import annotations

from pathlib import Path

import inference
import models
import page
import pytest
from inference_trial import Run


@pytest.fixture(scope="module")
def results() -> inference.Runs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "MODELS", {"small": models.small})
        return dict(inference.runs(["small"], rounds=1))


def test_programs_agree_with_eager_mode(results: inference.Runs) -> None:
    runs = results["small"]
    assert list(runs) == ["eager", "peer", "ours"]
    assert all(run.seconds > 0 for run in runs.values())
    for name in ("peer", "ours"):
        assert runs[name].difference < 1e-5
        assert runs[name].instructions > 0 and runs[name].planned > 0


def test_the_table_has_a_row_for_each_and_one_for_all() -> None:
    runs = {"eager": Run(0.5), "peer": Run(4, 1e-6, 30, 2000), "ours": Run(1, 2e-7, 20, 1000)}
    text = inference.inference_table({"one": runs, "two": runs})
    assert text.splitlines()[2:] == [
        "| one | 30 | 20 | 2,000 | 1,000 | 4.000 | 1.000 | 0.500 | 4.0 x | 2.00 x | 1e-06 | 2e-07 |",
        "| two | 30 | 20 | 2,000 | 1,000 | 4.000 | 1.000 | 0.500 | 4.0 x | 2.00 x | 1e-06 | 2e-07 |",
        "| all |  |  |  |  | 8.000 | 2.000 | 1.000 | 4.0 x | 2.00 x |  |  |",
    ]


def test_the_page_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(text)
    page.write("inference", "new")
    assert (
        "<!-- inference -->\n\nnew\n<!-- end of inference -->\n"
        in (tmp_path / "docs" / "benchmarks.md").read_text()
    )
