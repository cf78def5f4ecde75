# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.vulkan.operators.rewrites import REWRITES
from delegatec.backends.vulkan.operators.table import TABLE
from tests.operators.backend_check import FORMS, HALF, BackendCheck, Setting

_INTEGERS: Final = "the shaders compute integers in float32, exact up to 2^24"
_SHIFTS: Final = "the shaders have no operators on bits of integers"
_FLOAT32: Final = (torch.float32,)
_HALF: Final = {**HALF, torch.float32: (2e-3, 1e-2)}

_CHECK: Final = BackendCheck(
    "vulkan",
    TABLE,
    REWRITES,
    (
        Setting(),
        Setting({"storage": "buffer"}, _FLOAT32, forms=FORMS[:1]),
        Setting({"precision": "fp16"}, _FLOAT32, _HALF, is_half=True, forms=FORMS[:1]),
    ),
    deviations={
        **dict.fromkeys(
            (
                *("add.Tensor", "clamp.Tensor", "cumsum.default", "maximum.default", "relu.default"),
                *("sub.Tensor", "sum.dim_IntList"),
            ),
            _INTEGERS,
        ),
        "hardswish.default": "minus infinity becomes 0",
        "_log_softmax.default": "a row with NaN is undefined",
        "_softmax.default": "a row with NaN is undefined",
    },
    unsupported={
        **dict.fromkeys(
            (
                *("bitwise_left_shift.Scalar_Tensor", "bitwise_left_shift.Tensor"),
                *("bitwise_right_shift.Scalar_Tensor", "bitwise_right_shift.Tensor"),
                "bitwise_right_shift.Tensor_Scalar",
            ),
            _SHIFTS,
        ),
        "floor_divide.default": _SHIFTS,
        "remainder.Tensor": _SHIFTS,
        "pow.Tensor_Tensor": "the shaders have no power of two tensors",
        "upsample_trilinear3d.vec": "the shaders have four dimensions",
    },
)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
