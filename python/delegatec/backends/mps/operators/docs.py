# SPDX-License-Identifier: Apache-2.0
"""The operator table as a page of the docs."""

from __future__ import annotations

from delegatec.backends.common.pages import operators_page
from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rules import REWRITES


def render_markdown() -> str:
    """The page of the MPS delegate."""
    return operators_page(TABLE, REWRITES, "MPS", "python/delegatec/backends/mps/operators")
