# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.backends.xnnpack.testing.catalogue import UNSUPPORTED
from tests.operators.backend_check import BackendCheck, Setting

_CHOSEN: Final = "`where` is a maximum: the value that is not chosen may make it NaN"
_COMPARED: Final = "comparisons are products of differences, which are NaN for NaN and equal infinities"


_CHECK: Final = BackendCheck(
    "xnnpack",
    TABLE,
    REWRITES,
    (Setting(dtypes=(torch.float32, torch.bool)),),
    deviations={
        **dict.fromkeys(("acosh.default", "asinh.default", "log1p.default", "where.self"), _CHOSEN),
        **dict.fromkeys(
            ("any.default", "any.dim", "any.dims", "ne.Tensor", "sign.default"),
            _COMPARED,
        ),
    },
    unsupported=UNSUPPORTED,
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
