# SPDX-License-Identifier: Apache-2.0
"""Type check of the compiler by mypy's strict rules and torch's annotations."""

from __future__ import annotations

from pathlib import Path

from mypy import api


def test_types(tmp_path: Path) -> None:
    report, errors, status = api.run(
        ["--config-file", "pyproject.toml", "--cache-dir", str(tmp_path), "--package", "delegatec"]
    )
    assert status == 0, f"\n{report}{errors}"
    assert report.startswith("Success"), report
