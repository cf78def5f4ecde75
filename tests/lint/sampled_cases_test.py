# SPDX-License-Identifier: Apache-2.0
"""The mark `sampled` leaves out cases, others for each SAMPLE, unless all or some are asked for."""

from __future__ import annotations

import sys

import pytest

_TEST = """
import pytest
from sampled_cases import part_of

@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(7))
def test_sampled(number):
    pass

@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(2))
def test_few(number):
    pass

@pytest.mark.parametrize("number", range(2))
def test_all(number):
    pass

def test_part(record_property):
    record_property("part", part_of("abcdefg", 3, "letters"))
"""
_UNSAMPLED = {"all[0]", "all[1]", "part"}
_EVERY = _UNSAMPLED | {"few[0]", "few[1]"} | {f"sampled[{number}]" for number in range(7)}


class _Names:
    """A plugin that keeps the names of the tests that run, and the part of the letters."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.part: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps a name."""
        if report.when == "call":
            self.found.append(report.nodeid.rpartition("::test_")[2])
            for _, part in report.user_properties:
                self.part = [*part]


def _run(folder: pytest.TempPathFactory, *arguments: str) -> _Names:
    path = folder.mktemp("tests") / "some_test.py"
    path.write_text(_TEST)
    names = _Names()
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--strict-markers", "--noconftest"]
    assert pytest.main([*options, *arguments, str(path)], plugins=[sys.modules["sampled_cases"], names]) == 0
    return names


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVERY_CASE", raising=False)
    monkeypatch.delenv("SAMPLE", raising=False)


def test_every_third_case_runs(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [_run(tmp_path_factory)]
    for sample in ("1", "2", "6"):
        monkeypatch.setenv("SAMPLE", sample)
        runs.append(_run(tmp_path_factory))
    assert runs[0].found == runs[3].found and runs[0].part == runs[3].part
    for found, part in ((each.found, each.part) for each in runs):
        indices = sorted(int(name[-2]) for name in found if name.startswith("sampled"))
        assert indices == [*range(indices[0], 7, 3)] and indices[0] < 3
        assert sum(name.startswith("few") for name in found) == 1
        assert part == [*"abcdefg"["abcdefg".index(part[0]) :: 3]]
    assert {name for each in runs for name in each.found} == _EVERY
    assert sorted(letter for each in runs[:3] for letter in each.part) == [*"abcdefg"]


def test_all_cases_run_on_request(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERY_CASE", "1")
    names = _run(tmp_path_factory)
    assert {*names.found} == _EVERY
    assert names.part == [*"abcdefg"]


def test_named_cases_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    for number in range(2):  # a sample has one of three
        assert _run(tmp_path_factory, "-k", f"sampled[{number}]").found == [f"sampled[{number}]"]
