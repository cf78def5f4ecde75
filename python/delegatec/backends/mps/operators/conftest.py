# SPDX-License-Identifier: Apache-2.0
"""Compares the operations emitted in these tests with the record, or writes it, with `--record`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delegatec.backends.common.record import Record
from delegatec.backends.mps.operators.docs import RECORD
from delegatec.backends.mps.testing import recorded_lowerings

_HELP = "if this is correct: bazel run //python/delegatec/backends/mps:record"
_RECORDED = Record.read(RECORD)
_PARTIAL = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the record of the operator table")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Determines whether all tests of the directory run."""
    folder = Path(__file__).parent
    whole = {path.relative_to(folder) for path in folder.rglob("*_test.py")}
    files = {item.path.relative_to(folder) for item in session.items if item.path.is_relative_to(folder)}
    named = any("::" in argument for argument in session.config.args)
    session.stash[_PARTIAL] = session.stash.get(_PARTIAL, False) or named or files != whole


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.session.stash[_PARTIAL] = True


@pytest.fixture(scope="session", autouse=True)
def lowerings(request: pytest.FixtureRequest) -> Iterator[Record]:
    """Collects the operations of all tests, which must equal the record if all of them run."""
    with recorded_lowerings() as lowerings:
        yield lowerings
    session = request.session
    if session.stash[_PARTIAL] or session.testsfailed:
        assert not session.config.getoption("record"), "--record requires that all tests run and pass"
    elif session.config.getoption("record"):
        RECORD.resolve().write_text(lowerings.text(), encoding="utf-8")
    else:
        stale = _RECORDED.beyond(lowerings)
        assert not stale, f"no test emits these recorded operations: {stale}; {_HELP}"


@pytest.fixture(autouse=True)
def _recorded(lowerings: Record, request: pytest.FixtureRequest) -> Iterator[None]:
    """Checks that the test emits only recorded operations."""
    before = {*lowerings.beyond(_RECORDED)}
    yield
    if not request.config.getoption("record"):
        new = {*lowerings.beyond(_RECORDED)} - before
        assert not new, f"operations missing in the record: {sorted(new)}; {_HELP}"
