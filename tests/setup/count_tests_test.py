# SPDX-License-Identifier: Apache-2.0
"""How .ci/run counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from runfiles import Runfiles


def count(tmp_path: Path, events: list[dict[str, Any]]) -> tuple[str, int]:
    """Last line and exit status of the counter."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    script = runfiles.Rlocation("rules_delegate/.ci/count_tests.py")
    assert script is not None
    file = tmp_path / "events.json"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    done = subprocess.run([sys.executable, script, str(file)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-1], done.returncode


def result(label: str, status: str, report: Path | None = None, shard: int = 1) -> dict[str, Any]:
    """The event of one run of a test."""
    outputs = [{"name": "test.xml", "uri": report.as_uri()}] if report else []
    return {
        "id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": 1}},
        "testResult": {"status": status, "testActionOutput": outputs},
    }


def summary(label: str, status: str) -> dict[str, Any]:
    """The event of a test as a whole."""
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


def report(path: Path, tests: int, failures: int = 0, errors: int = 0, skipped: int = 0) -> Path:
    """A JUnit report."""
    path.write_text(
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}"'
        f' skipped="{skipped}"/></testsuites>'
    )
    return path


def test_cases_are_counted(tmp_path: Path) -> None:
    events = [
        {"id": {"started": {}}, "started": {}},
        result("//a", "PASSED", report(tmp_path / "a", 3, skipped=1)),
        summary("//a", "PASSED"),
        result("//b", "PASSED", report(tmp_path / "b1", 2), shard=1),
        result("//b", "PASSED", report(tmp_path / "b2", 2), shard=2),
        summary("//b", "PASSED"),
    ]
    assert count(tmp_path, events) == ("6 passed, 0 failed, 1 skipped", 0)


def test_failures_are_counted(tmp_path: Path) -> None:
    events = [
        result("//a", "PASSED", report(tmp_path / "a", 3)),
        result("//b", "FAILED", report(tmp_path / "b", 5, failures=1, errors=1)),
        summary("//b", "FAILED"),
    ]
    assert count(tmp_path, events) == ("6 passed, 2 failed", 1)


def test_a_test_without_report_is_one_case(tmp_path: Path) -> None:
    events = [
        result("//a", "PASSED"),
        result("//b", "TIMEOUT", tmp_path / "not_there"),
        result("//c", "FAILED", report(tmp_path / "c", 1)),
    ]
    assert count(tmp_path, events) == ("2 passed, 2 failed", 1)


def test_a_test_that_cannot_be_built_has_failed(tmp_path: Path) -> None:
    events = [
        result("//a", "PASSED", report(tmp_path / "a", 1)),
        summary("//a", "PASSED"),
        summary("//b", "NO_STATUS"),
    ]
    assert count(tmp_path, events) == ("1 passed, 1 failed", 1)


def test_no_test_at_all_is_a_failure(tmp_path: Path) -> None:
    assert count(tmp_path, []) == ("0 passed, 0 failed", 1)
