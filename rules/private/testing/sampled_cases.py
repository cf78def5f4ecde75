# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the mark `sampled(step)` of a test with parameters, of which it runs every step-th case.

All cases run with the variable EVERY_CASE, as in `bazel test --test_env=EVERY_CASE=1`, or if cases are named.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark."""
    config.addinivalue_line("markers", "sampled(step): runs every step-th case, unless EVERY_CASE is set")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Removes the other cases."""
    if os.environ.get("EVERY_CASE") or config.option.keyword or any("::" in name for name in config.args):
        return
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("sampled")
        test = item.nodeid.partition("[")[0]
        (left if mark is not None and seen[test] % mark.args[0] else kept).append(item)
        seen[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)
