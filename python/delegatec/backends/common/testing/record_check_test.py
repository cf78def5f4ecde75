# SPDX-License-Identifier: Apache-2.0
"""A backend's lowerings are recorded during its own tests, and compared with its record."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

_CONFTEST = """
from contextlib import contextmanager
from pathlib import Path

from delegatec.backends.common.record import Record
from delegatec.backends.common.testing.record_check import RecordCheck

FOLDER = Path(__file__).parent

@contextmanager
def recorded_lowerings():
    (FOLDER / "state.txt").write_text("open")
    yield Record({"a.row": {"A"}}, {}, {"row of c"})
    (FOLDER / "state.txt").write_text("closed")

_CHECK = RecordCheck(FOLDER, FOLDER / "record.json", recorded_lowerings, "//:r")
pytest_collection_finish = _CHECK.collection_finish
pytest_deselected = _CHECK.deselected
lowerings = _CHECK.of_package()
recorded = _CHECK.of_test()
"""
_TEST = """
from pathlib import Path

def test_state():
    assert (Path(__file__).parents[1] / "operators" / "state.txt").read_text() == "{state}"
"""
_RECORD = '{{"rows": {{"a.row": ["A"]{more}}}, "rewrites": {{}}, "untested": [{untested}]}}'


def _run(pytester: pytest.Pytester, more: str = "", untested: str = '"row of c"') -> pytest.RunResult:
    """Runs a test of a table of operators, and another one after it."""
    for folder in ("operators", "others"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / "__init__.py").touch()
    (pytester.path / "operators" / "conftest.py").write_text(_CONFTEST)
    (pytester.path / "operators" / "record.json").write_text(_RECORD.format(more=more, untested=untested))
    (pytester.path / "operators" / "first_test.py").write_text(_TEST.format(state="open"))
    (pytester.path / "others" / "second_test.py").write_text(_TEST.format(state="closed"))
    return pytester.runpytest_inprocess(
        "operators", "others", "-p", "record_options", "-p", "no:cacheprovider"
    )


def test_recording_ends_with_the_tests_of_the_table(pytester: pytest.Pytester) -> None:
    _run(pytester).assert_outcomes(passed=2)


def test_an_operation_that_no_test_emits_is_an_error(pytester: pytest.Pytester) -> None:
    result = _run(pytester, ', "b.row": ["B"]')
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*no test emits these recorded operations: *b.row -> B*bazel run //:r*"])


@pytest.mark.parametrize(
    ("untested", "message"),
    [
        ("", "*no test reaches: row of c*"),
        ('"row of b", "row of c"', "*recorded as untested: row of b; *//:r*"),
    ],
)
def test_rows_that_no_test_reaches_are_recorded(
    pytester: pytest.Pytester, untested: str, message: str
) -> None:
    result = _run(pytester, untested=untested)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([message])
