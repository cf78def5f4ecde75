# SPDX-License-Identifier: Apache-2.0
"""The MPS runtime as a target of legalization."""

from __future__ import annotations

from typing import Final

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import elementary

REWRITES: Final[Rewrites] = rewrites(elementary.REWRITES)
"""What MPSGraph lacks, or has otherwise than ATen, in terms of what it has."""


def target(settings: Settings) -> TableTarget[Settings]:
    """The rows of the table, and the rewrites for the rest."""
    return TableTarget(TABLE, REWRITES, settings)
