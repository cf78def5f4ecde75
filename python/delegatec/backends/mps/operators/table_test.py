# SPDX-License-Identifier: Apache-2.0
"""The operator table."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.operators.table import ROWS, index_rows
from delegatec.backends.mps.reference.executor import SEMANTICS

aten = torch.ops.aten


def test_every_operation_of_every_row_has_semantics() -> None:
    emitted = {operation for row in ROWS.values() for operation in row.emits}
    assert emitted <= set(OPERATION_NAMES.values())
    assert emitted <= set(SEMANTICS)


def test_an_overload_with_two_rows_is_an_error() -> None:
    row = ROWS[aten.relu.default]
    with pytest.raises(ValueError, match=r"aten\.relu\.default has two rows"):
        index_rows([row, row])
