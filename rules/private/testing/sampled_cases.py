# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the mark `sampled(step)` of a test with parameters, of which it runs every step-th case.

Which ones depends on the name of the test, so that tests of one table run different rows, and on the number
in the variable SAMPLE, 0 by default: a result that depended on the day could not be cached or repeated. All
cases run with the variable EVERY_CASE, as in `bazel test --test_env=EVERY_CASE=1`, if cases are named, or if
the run writes a record.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

_T = TypeVar("_T")

# For each session, as a test may run pytest: the number of its samples, or None if all cases run.
_samples: Final[list[int | None]] = []


def part_of(cases: Sequence[_T], step: int, key: str) -> list[_T]:
    """Returns every step-th of the cases that one test has, at least one; all of them if every case runs.

    Args:
        cases: in an order that stays.
        step: for how many of them one runs.
        key: names the cases: others have another offset.
    """
    sample = _samples[-1] if _samples else None
    step = min(step, len(cases))
    if sample is None or step < 2:
        return [*cases]
    return [*cases[(sample + zlib.crc32(key.encode())) % step :: step]]


def runs_every_case() -> bool:
    """Whether nothing is left out."""
    return not _samples or _samples[-1] is None


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark, and chooses the sample."""
    config.addinivalue_line("markers", "sampled(step): runs every step-th case, unless EVERY_CASE is set")
    is_whole = (
        os.environ.get("EVERY_CASE")
        or config.option.keyword
        or any("::" in name for name in config.args)
        or config.getoption("record", default=False)
    )
    _samples.append(None if is_whole else int(os.environ.get("SAMPLE", "0")))


def pytest_unconfigure() -> None:
    """Ends the session."""
    _samples.pop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Writes how to run the same cases again."""
    if not runs_every_case():
        terminalreporter.write_line(f"of sampled cases: SAMPLE={_samples[-1]}; all run with EVERY_CASE=1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Removes the other cases."""
    if runs_every_case():
        return
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("sampled")) is not None:
            cases.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    left = {id(item) for several in cases.values() for item in several}
    for (test, step), several in cases.items():
        left.difference_update(map(id, part_of(several, step, _name(test))))
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left])
    items[:] = [item for item in items if id(item) not in left]


def _name(test: str) -> str:
    """Returns a test's file and function, the same wherever pytest runs."""
    file, _, function = test.partition("::")
    return f"{os.path.basename(file)}::{function}"
