# SPDX-License-Identifier: Apache-2.0
"""The MPS runtime as a target of legalization."""

from __future__ import annotations

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rules import REWRITES


def target(settings: Settings) -> TableTarget[Settings]:
    """Returns the target: rows of the table, and rewrites for other calls."""
    return TableTarget(TABLE, REWRITES, settings)
