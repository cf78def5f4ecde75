# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest

from delegatec.backends.arm.operators.rewrites import WITHOUT_INTEGERS
from delegatec.backends.arm.operators.table import TABLE
from tests.operators.backend_check import BackendCheck, Setting

_RANK: Final = "TOSA has at most six dimensions"

_CHECK: Final = BackendCheck(
    "tosa",
    TABLE,
    WITHOUT_INTEGERS,
    (Setting(),),
    unsupported={
        "_upsample_nearest_exact3d.vec": _RANK,
        "upsample_nearest3d.vec": _RANK,
        "sum.default": "its rewrite is for targets without integers",
        "max_pool3d_with_indices.default": "its rewrite reads positions of a pool, which TOSA does not have",
    },
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
