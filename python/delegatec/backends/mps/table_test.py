# SPDX-License-Identifier: Apache-2.0
"""The operator table, and the record of what its rows emit."""

from __future__ import annotations

from delegatec.backends.common.record import Record, named
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.operators.docs import RECORD
from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import SEMANTICS

RECORDED = Record.read(RECORD)


def test_tests_reach_every_row() -> None:
    assert set(RECORDED.rows) == {str(target) for target in TABLE.rows}


def test_tests_reach_every_rewrite() -> None:
    assert set(RECORDED.rewrites) == {name for name, _ in named(REWRITES)}


def test_every_operation_of_every_row_has_semantics() -> None:
    emitted = {operation for operations in RECORDED.rows.values() for operation in operations}
    assert emitted <= set(OPERATION_NAMES.values())
    assert emitted <= set(SEMANTICS)
