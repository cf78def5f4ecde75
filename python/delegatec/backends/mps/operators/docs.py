# SPDX-License-Identifier: Apache-2.0
"""The operator table as a page of the docs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from delegatec.backends.common.pages import operators_page
from delegatec.backends.common.record import Record
from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rules import REWRITES

RECORD: Final = Path(__file__).with_name("recorded.json")
"""What rows emit and rewrites make; the tests of this folder write it."""


def render_markdown() -> str:
    """The page of the MPS delegate."""
    folder = "python/delegatec/backends/mps/operators"
    return operators_page(TABLE, REWRITES, Record.read(RECORD), "MPS", folder)
