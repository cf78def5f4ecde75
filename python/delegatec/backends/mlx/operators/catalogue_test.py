# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.mlx.operators.rewrites import REWRITES
from delegatec.backends.mlx.operators.table import TABLE
from tests.operators.backend_check import FORMS, HALF, BackendCheck, Setting

_DTYPES: Final = (torch.float32, torch.int64, torch.int32, torch.int8, torch.bool)

_CHECK: Final = BackendCheck(
    "mlx",
    TABLE,
    REWRITES,
    (
        Setting(dtypes=_DTYPES),
        Setting(dtypes=(torch.float16, torch.bfloat16), tolerances=HALF, forms=FORMS[:1]),
        Setting({"precision": "fp16"}, (torch.float32,), HALF, is_half=True, forms=FORMS[:1]),
    ),
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
