# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of a `bazel test` and prints `N passed, N failed`.

Usage: count_tests.py EVENTS.json

The events come from Bazel (`--build_event_json_file`): each test's status and the path of its JUnit report.
A test without a report, or one that fails although all its reported cases pass, counts as one case.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSED = frozenset({"PASSED", "FLAKY"})


@dataclass
class Count:
    """Test cases by their outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Count) -> None:
        """Adds another count to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_report(path: Path) -> Count:
    """Counts the cases of one JUnit report; zero if it cannot be read."""
    count = Count()
    try:
        suites = list(xml.etree.ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, xml.etree.ElementTree.ParseError):
        return count
    for suite in suites:
        tests, failures, errors, skipped = (
            int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
        )
        count.add(Count(tests - failures - errors - skipped, failures + errors, skipped))
    return count


def reports(result: dict[str, Any]) -> Iterator[Path]:
    """Returns the JUnit reports of one run of a test."""
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            yield Path(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))


def count_events(lines: list[str]) -> Count:
    """Counts the cases of all tests of a run."""
    # Only the last attempt of a flaky test counts.
    runs: dict[tuple[str, int, int], Count] = {}
    summaries: dict[str, str] = {}
    for event in map(json.loads, lines):
        identity = event["id"]
        if "testResult" in identity:
            key = identity["testResult"]
            count = Count()
            for path in reports(event["testResult"]):
                count.add(count_report(path))
            if event["testResult"]["status"] not in PASSED:
                count.failed = max(count.failed, 1)
            elif count == Count():
                count.passed = 1
            runs[key["label"], key.get("run", 1), key.get("shard", 1)] = count
        elif "testSummary" in identity:
            summaries[identity["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
    total = Count()
    for count in runs.values():
        total.add(count)
    # A test that was not built has only a summary.
    started = {label for label, _, _ in runs}
    total.failed += sum(status not in PASSED for label, status in summaries.items() if label not in started)
    return total


def main() -> int:
    count = count_events(Path(sys.argv[1]).read_text().splitlines())
    skipped = f", {count.skipped} skipped" if count.skipped else ""
    print(f"{count.passed} passed, {count.failed} failed{skipped}")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
