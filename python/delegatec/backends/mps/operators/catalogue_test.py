# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest

from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rules import REWRITES
from tests.operators.backend_check import BackendCheck, Setting

_CHECK: Final = BackendCheck(
    "mps",
    TABLE,
    REWRITES,
    (Setting(),),
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
