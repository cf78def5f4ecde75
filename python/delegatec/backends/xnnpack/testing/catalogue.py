# SPDX-License-Identifier: Apache-2.0
"""What the tests of the catalogue of operators, `tests/operators`, know of XNNPACK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_INTEGERS: Final = "XNNPACK computes in floating point only"
_INDICES: Final = "XNNPACK has no operator that reads computed indices"

UNSUPPORTED: Final[Mapping[str, str]] = {
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
        _INDICES,
    ),
    **dict.fromkeys(
        ("isnan.default", "pow.Tensor_Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self"),
        "no comparison of XNNPACK tells NaN from numbers",
    ),
}
"""Operator -> why no call of it is delegated, although XNNPACK has a rewrite of it."""
