# SPDX-License-Identifier: Apache-2.0
"""The documentation page of the operator table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from delegatec.backends.arm.operators.rewrites import WITHOUT_INTEGERS
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.common.pages import operators_page
from delegatec.backends.common.record import Record

RECORD: Final = Path(__file__).with_name("recorded.json")
"""TOSA operators emitted by rows, and rewrites; written by the tests of this directory."""


def render_markdown() -> str:
    """Returns the page of the Arm delegates."""
    folder = "python/delegatec/backends/arm/operators"
    return operators_page(TABLE, WITHOUT_INTEGERS, Record.read(RECORD), "Arm", folder)
