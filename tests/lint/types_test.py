# SPDX-License-Identifier: Apache-2.0
"""The compiler has the types it says it has, by mypy's strict rules and torch's own annotations."""

from __future__ import annotations

from pathlib import Path

from mypy import api


def test_types(tmp_path: Path) -> None:
    report, errors, status = api.run(
        ["--config-file", "pyproject.toml", "--cache-dir", str(tmp_path), "--package", "delegatec"]
    )
    assert status == 0, f"\n{report}{errors}"
    assert report.startswith("Success"), report
