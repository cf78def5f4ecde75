# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the options by which tests write what they compare with."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addoption("--record", action="store_true", help="write operators/recorded.json of a backend")
    parser.addoption("--record-messages", action="store_true", help="write the messages of all mistakes")
