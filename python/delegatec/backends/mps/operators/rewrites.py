# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that MPSGraph lacks: the shared ones, except for functions that it has."""

from __future__ import annotations

from typing import Final

from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import exponentials, trigonometry

# Their rows do not refuse calls that the rewrites could compute.
_FUNCTIONS: Final = rewrites(trigonometry.REWRITES, exponentials.OTHER_BASES).keys() & TABLE.rows.keys()

REWRITES: Final[Rewrites] = {
    target: alternatives for target, alternatives in SHARED.items() if target not in _FUNCTIONS
}
