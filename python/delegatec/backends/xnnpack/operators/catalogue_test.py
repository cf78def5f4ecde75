# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from tests.operators.backend_check import BackendCheck, Setting

_CHOSEN: Final = "`where` is a maximum: the value that is not chosen may make it NaN"
_COMPARED: Final = "comparisons are products of differences, which are NaN for NaN and equal infinities"
_INTEGERS: Final = "XNNPACK computes in floating point only"
_POSITIONS: Final = "XNNPACK has no operator that reads computed positions"

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
    unsupported={
        **dict.fromkeys(
            (
                *("bitwise_left_shift.Scalar_Tensor", "bitwise_left_shift.Tensor"),
                *("bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Scalar_Tensor"),
                *("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "floor_divide.default"),
            ),
            _INTEGERS,
        ),
        **dict.fromkeys(
            (
                *("embedding.default", "gather.default"),
                *("grid_sampler_2d.default", "masked_scatter.default", "scatter.src", "scatter.value"),
                *(
                    "scatter_add.default",
                    "topk.default",
                    "_upsample_nearest_exact3d.vec",
                    "upsample_nearest3d.vec",
                ),
            ),
            _POSITIONS,
        ),
        **dict.fromkeys(
            ("isnan.default", "pow.Tensor_Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"),
            "no comparison of XNNPACK tells NaN from numbers",
        ),
    },
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
