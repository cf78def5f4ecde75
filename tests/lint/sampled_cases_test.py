# SPDX-License-Identifier: Apache-2.0
"""The mark `sampled` leaves out cases, unless all or some are asked for."""

from __future__ import annotations

import sys

import pytest

_TEST = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(7))
def test_sampled(number):
    pass

@pytest.mark.parametrize("number", range(2))
def test_all(number):
    pass
"""
_SAMPLE = ["sampled[0]", "sampled[3]", "sampled[6]", "all[0]", "all[1]"]


class _Names:
    """A plugin that keeps the names of the tests that run."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps a name."""
        if report.when == "call":
            self.found.append(report.nodeid.rpartition("::test_")[2])


def _run(folder: pytest.TempPathFactory, *arguments: str) -> list[str]:
    path = folder.mktemp("tests") / "some_test.py"
    path.write_text(_TEST)
    names = _Names()
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--strict-markers", "--noconftest"]
    assert pytest.main([*options, *arguments, str(path)], plugins=[sys.modules["sampled_cases"], names]) == 0
    return names.found


def test_every_third_case_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert _run(tmp_path_factory) == _SAMPLE


def test_all_cases_run_on_request(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERY_CASE", "1")
    assert len(_run(tmp_path_factory)) == 9


def test_named_cases_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert _run(tmp_path_factory, "-k", "sampled[5]") == ["sampled[5]"]
