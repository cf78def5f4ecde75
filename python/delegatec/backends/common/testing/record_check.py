# SPDX-License-Identifier: Apache-2.0
"""Compares the lowerings of a backend's tests with its record, or writes it: the parts of a conftest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from delegatec.backends.common.record import Record


class RecordCheck:
    """Hooks and fixtures for the tests of one operator table, which their conftest names.

    Args:
        folder: with the tests.
        path: the record.
        recorded_lowerings: records what is lowered while it is open.
        label: the target that writes the record.
    """

    def __init__(
        self,
        folder: Path,
        path: Path,
        recorded_lowerings: Callable[[], AbstractContextManager[Record]],
        label: str,
    ) -> None:
        self._folder = folder
        self._path = path
        self._recorded_lowerings = recorded_lowerings
        self._help = f"if this is correct: bazel run {label}"
        self._recorded = Record.read(path)
        self._is_partial = False

    def collection_finish(self, session: pytest.Session) -> None:
        """Determines whether all tests of the folder run, with all cases, as `pytest_collection_finish`."""
        samples: Any = session.config.pluginmanager.get_plugin("sampled_cases")
        self._is_partial |= samples is not None and not samples.runs_every_case()
        paths = [item.path for item in session.items]
        files = {*self._folder.rglob("*_test.py")}
        here = {path for path in paths if path.is_relative_to(self._folder)}
        self._is_partial |= any("::" in argument for argument in session.config.args) or here != files

    def deselected(self, items: list[pytest.Item]) -> None:
        """Notes that some tests do not run, as `pytest_deselected`."""
        self._is_partial |= bool(items)

    def of_package(self) -> Any:
        """Returns the fixture `lowerings`: those of all tests, which must equal the record if all cases run.

        It ends with the last test of the folder: another backend's rewrites are not in its table.
        """

        @pytest.fixture(scope="package", autouse=True)
        def lowerings(request: pytest.FixtureRequest) -> Iterator[Record]:
            with self._recorded_lowerings() as found:
                yield found
            if self._is_partial or request.session.testsfailed:
                assert not request.config.getoption("record"), "--record requires that all tests run and pass"
            elif request.config.getoption("record"):
                self._path.resolve().write_text(found.text(), encoding="utf-8")
            else:
                stale = self._recorded.beyond(found)
                assert not stale, f"no test emits these recorded operations: {stale}; {self._help}"
                new = found.untested - self._recorded.untested
                assert not new, f"no test reaches: {', '.join(sorted(new))}"
                reached = self._recorded.untested - found.untested
                assert not reached, f"recorded as untested: {', '.join(sorted(reached))}; {self._help}"

        return lowerings

    def of_test(self) -> Any:
        """Returns a fixture that checks that a test emits only recorded operations."""

        @pytest.fixture(autouse=True)
        def recorded(lowerings: Record, request: pytest.FixtureRequest) -> Iterator[None]:
            before = {*lowerings.beyond(self._recorded)}
            yield
            if not request.config.getoption("record"):
                new = {*lowerings.beyond(self._recorded)} - before
                assert not new, f"operations missing in the record: {sorted(new)}; {self._help}"

        return recorded
