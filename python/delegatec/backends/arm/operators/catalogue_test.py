# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.arm.operators.rewrites import WITHOUT_INTEGERS
from delegatec.backends.arm.operators.table import TABLE
from tests.operators.backend_check import BackendCheck, Setting

_RANK: Final = "TOSA has at most six dimensions"

_CHECK: Final = BackendCheck(
    "tosa",
    TABLE,
    WITHOUT_INTEGERS,
    (
        Setting(),
        # floating point is the same without the profile INT
        Setting({"specification": "TOSA-1.0+FP"}, dtypes=(torch.int32, torch.bool)),
        Setting({"specification": "TOSA-1.0+INT"}, dtypes=(torch.float32,), quantized=1.05),
    ),
    unsupported={
        "_upsample_nearest_exact3d.vec": _RANK,
        "upsample_nearest3d.vec": _RANK,
    },
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
