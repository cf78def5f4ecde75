# SPDX-License-Identifier: Apache-2.0
"""The operator table."""

from __future__ import annotations

from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import SEMANTICS


def test_every_operation_of_every_row_has_semantics() -> None:
    emitted = {operation for row in TABLE.rows.values() for operation in row.emits}
    assert emitted <= set(OPERATION_NAMES.values())
    assert emitted <= set(SEMANTICS)
