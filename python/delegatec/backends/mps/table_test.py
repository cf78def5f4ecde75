# SPDX-License-Identifier: Apache-2.0
"""The operator table, and the record of what its rows emit."""

from __future__ import annotations

from delegatec.backends.common.record import Record, named
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.operators.docs import RECORD
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import SEMANTICS
from delegatec.edge.legalize.rule import rewrites as index
from delegatec.edge.legalize.rules import REWRITES, exponentials, trigonometry

RECORDED = Record.read(RECORD)


def test_tests_reach_every_row() -> None:
    assert set(RECORDED.rows) == {str(target) for target in TABLE.rows}


def test_tests_reach_every_rewrite() -> None:
    rewrites = {name: rewrite.target for name, rewrite in named(REWRITES)}
    # MPSGraph has these functions: their rows do not refuse calls that the rewrites could compute.
    functions = index(trigonometry.REWRITES, exponentials.OTHER_BASES)
    unused = {name for name, _ in named(functions) if rewrites[name] in TABLE.rows}
    assert set(RECORDED.rewrites) == set(rewrites) - unused


def test_every_operation_of_every_row_has_semantics() -> None:
    emitted = {operation for operations in RECORDED.rows.values() for operation in operations}
    assert emitted <= set(OPERATION_NAMES.values())
    assert emitted <= set(SEMANTICS)
